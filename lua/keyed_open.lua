--[[
keyed_open: each counter has its number of key shards, by which a key finds its shard; what was settled first stays.

Fields of shard 0: o, the number of key shards, never changed; k, the number of shards to be read, at least that.

KEYS   1 registry     hash
       2 index        sorted set   what was changed here; touched only where changes are stamped
       3.. shards     hash   shard 0 of each counter
ARGV   1 generation   where the registry has none yet; empty: answer UNKNOWN then
       2.. wanted     key shards of each counter, where none are settled yet
REPLY  OK [settled]...   of each counter its key shards; "!" and Redis's error where it refuses one, alone
       UNKNOWN           nothing written: there is no registry
ERROR  BADARG ...        nothing written
COST   O(counters); up to 2 commands each; of a new one, where changes are stamped, 1 more;
       of notes as in slots_merge; where all is settled it writes nothing
]]
-- include parts/calls.lua
-- include parts/open_changes.lua
-- include parts/changes.lua
-- include parts/less.lua
-- include parts/write_changes.lua
if #ARGV ~= #KEYS - 1 or #ARGV < 1 then
  return redis.error_reply('BADARG keyed_open: ' .. #KEYS .. ' keys, ' .. #ARGV .. ' arguments do not fit')
end
for i = 2, #ARGV do
  if not string.find(ARGV[i], '^[1-9]%d*$') then
    return redis.error_reply('BADARG keyed_open: wanted ' .. (i - 1) .. ' is no number')
  end
end

local changes = open_changes(KEYS[1], KEYS[2], ARGV[1])
if not changes then return {'UNKNOWN'} end

local reply = {'OK'}
for i = 2, #ARGV do
  local key = KEYS[i + 1]
  local there = pcall('HMGET', key, 'o', 'k', 'd')
  if there.err then
    reply[i] = '!' .. there.err
  else
    local own, told = there[1] or ARGV[i], there[2] or '1'
    local lacking, grows = {}, less(told, own)
    if not there[1] then lacking = {'o', own} end
    if grows then
      lacking[#lacking + 1] = 'k'
      lacking[#lacking + 1] = own
    end
    if not there[3] then
      lacking[#lacking + 1] = 'd'
      lacking[#lacking + 1] = dot_of(changes, key)
    end
    if #lacking > 0 then call('HSET', key, unpack(lacking)) end
    if (grows or not there[3]) then has_changed(changes, key) end
    reply[i] = own
  end
end
write_changes(changes)
return reply
