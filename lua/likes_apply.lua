--[[
likes_apply: each user is in the set of likers, or is not, as asked; each change of the set changes the base by 1.

A like that is new is 1 more in the base of +, one that is taken back is 1 more in the base of -. Set and base are
changed in one step, so the value is the number of users.

KEYS   1 registry     hash
       2 index        sorted set   what was changed here; touched only where changes are stamped
       3.. pairs      of each item: the shard, a hash, and its users, a set
ARGV   1 generation   where the registry has none yet; empty: answer UNKNOWN then
       2.. values     of each item: "+" or "-", user
REPLY  OK [answer]...   of each item: 1 changed; 2 changed, and its shard was new; 0 was so before;
                        "!" and Redis's error where it refuses this item, alone
       UNKNOWN          nothing written: there is no registry
ERROR  BADARG ...       nothing written
COST   O(items); up to 4 commands each; of a new shard, where changes are stamped, up to 2 more;
       of notes as in slots_merge
]]
-- include parts/calls.lua
-- include parts/open_changes.lua
-- include parts/has_counted.lua
-- include parts/add_to_base.lua
-- include parts/write_changes.lua
local items = (#KEYS - 2) / 2
if #ARGV ~= #KEYS - 1 or items < 0 or items ~= math.floor(items) then
  return redis.error_reply('BADARG likes_apply: ' .. #KEYS .. ' keys, ' .. #ARGV .. ' arguments do not fit')
end
for i = 1, items do
  local sign = ARGV[2 * i]
  if sign ~= '+' and sign ~= '-' then
    return redis.error_reply('BADARG likes_apply: sign ' .. i .. ' is none')
  end
end

local changes = open_changes(KEYS[1], KEYS[2], ARGV[1], true)
if not changes then return {'UNKNOWN'} end
local shards = {} -- that have counted

local function apply(i, key, sign, user)
  local member = pcall('SISMEMBER', KEYS[i + 1], user)
  if type(member) == 'table' then return '!' .. member.err end
  if member == (sign == '+' and 1 or 0) then return '0' end
  local field, err = add_to_base(key, sign, '1')
  if err then return '!' .. err end
  local changed
  if sign == '+' then changed = pcall('SADD', KEYS[i + 1], user) else changed = pcall('SREM', KEYS[i + 1], user) end
  if type(changed) == 'table' then
    call('HINCRBY', key, field, '-1')
    return '!' .. changed.err
  end
  return has_counted(changes, shards, key)
end

local reply = {'OK'}
for i = 1, items do
  reply[i + 1] = apply(2 * i + 1, KEYS[2 * i + 1], ARGV[2 * i], ARGV[2 * i + 1])
end
write_changes(changes)
return reply
