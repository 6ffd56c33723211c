--[[
slots_seed: what each seed contributes to its counter is at least its total: the maximum of all that was sent.

A seed is a slot of an actor that is none: its name has one dot, an actor's id has two. It is never folded nor cleaned.
The first total, if negative, goes into the slot of -, and stays there; what is told later raises the slot of +.

KEYS   1 registry     hash
       2 index        sorted set   what was changed here; touched only where changes are stamped
       3.. shards     hash   one per item
ARGV   1 generation   where the registry has none yet; empty: answer UNKNOWN then
       2.. values     of each item: the seed, as slots are named after it; total, with its sign
REPLY  OK [answer]...   of each item: 1 raised; 2 raised, and its shard was new; 0 was as high before;
                        "!" and Redis's error where it refuses this item, alone
       UNKNOWN          nothing written: there is no registry
ERROR  BADARG ...       nothing written
COST   O(items); up to 5 commands each; of a new shard, where changes are stamped, up to 2 more;
       of notes as in slots_merge
]]
-- include parts/calls.lua
-- include parts/open_changes.lua
-- include parts/changes.lua
-- include parts/give_dot.lua
-- include parts/less.lua
-- include parts/write_changes.lua
local items = #KEYS - 2
if #ARGV ~= 1 + 2 * items then
  return redis.error_reply('BADARG slots_seed: ' .. #KEYS .. ' keys, ' .. #ARGV .. ' arguments do not fit')
end
for i = 1, items do
  local total = ARGV[2 * i + 1]
  if total ~= '0' and not string.find(total, '^%-?[1-9]%d*$') then
    return redis.error_reply('BADARG slots_seed: total ' .. i .. ' is no number')
  end
end

local changes = open_changes(KEYS[1], KEYS[2], ARGV[1], true)
if not changes then return {'UNKNOWN'} end

-- What is told is on top of a slot of - that stays: + has to be their sum. Returns whether that is more, or an error.
local function raise_above(key, field, old, below, total)
  call('HSET', key, field, below)
  local sum = pcall('HINCRBY', key, field, total)
  local new = call('HGET', key, field)
  if type(sum) ~= 'table' and string.sub(new, 1, 1) ~= '-' and less(old or '0', new) then return true end
  if old then call('HSET', key, field, old) else call('HDEL', key, field) end
  return false, type(sum) == 'table' and sum.err
end

local function seed(key, name, total)
  local plus, minus = name .. '+', name .. '-'
  local slots = pcall('HMGET', key, plus, minus)
  if slots.err then return false, slots.err end
  local negative = string.sub(total, 1, 1) == '-'
  if slots[2] then return raise_above(key, plus, slots[1], slots[2], total) end
  if slots[1] then
    if negative or not less(slots[1], total) then return false end
    call('HSET', key, plus, total)
  elseif negative then
    call('HSET', key, minus, string.sub(total, 2))
  else
    call('HSET', key, plus, total)
  end
  return true
end

local reply = {'OK'}
for i = 1, items do
  local key = KEYS[i + 2]
  local raised, err = seed(key, ARGV[2 * i], ARGV[2 * i + 1])
  if err then
    reply[i + 1] = '!' .. err
  elseif raised then
    has_changed(changes, key)
    reply[i + 1] = give_dot(changes, key) == 1 and '2' or '1'
  else
    reply[i + 1] = '0'
  end
end
write_changes(changes)
return reply
