--[[
shards_widen: each counter has at least that many shards, as readers are told by its shard 0.

Fields of shard 0: k, the number of shards, is raised; z, a narrowing that has begun, is void (see narrow_open).

KEYS   1 registry     hash
       2 index        sorted set   what was changed here; touched only where changes are stamped
       3.. shards     hash   shard 0 of each counter
ARGV   1 generation   where the registry has none yet; empty: answer UNKNOWN then
       2 wanted       number of shards
REPLY  OK [told]...   of each counter its number of shards; "!" and Redis's error where it refuses one, alone
       UNKNOWN        nothing written: there is no registry
ERROR  BADARG ...     nothing written
COST   O(counters); up to 2 commands each; of a new one, where changes are stamped, 1 more;
       of notes as in slots_merge
]]
-- include parts/calls.lua
-- include parts/open_changes.lua
-- include parts/changes.lua
-- include parts/less.lua
-- include parts/write_changes.lua
local wanted = ARGV[2]
if #ARGV ~= 2 or not string.find(wanted, '^[1-9]%d*$') then
  return redis.error_reply('BADARG shards_widen: wanted is no number')
end

local changes = open_changes(KEYS[1], KEYS[2], ARGV[1])
if not changes then return {'UNKNOWN'} end

local reply = {'OK'}
for i = 3, #KEYS do
  local key = KEYS[i]
  local there = pcall('HMGET', key, 'k', 'd', 'z')
  if there.err then
    reply[i - 1] = '!' .. there.err
  else
    local told = there[1] or '1'
    local grows = less(told, wanted)
    if grows then told = wanted end
    if (there[3] or '-') ~= '-' then
      call('HSET', key, 'k', told, 'z', '-')
    elseif grows then
      call('HSET', key, 'k', told, 'd', there[2] or dot_of(changes, key))
    end
    if grows then has_changed(changes, key) end
    reply[i - 1] = told
  end
end
write_changes(changes)
return reply
