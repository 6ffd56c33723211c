--[[
region_join: changes are stamped in this bucket from now on, and these shards are known to its index.

A counter that was ever given fewer shards has the field z in shard 0 (narrow_open), and maybe copies of others there.

KEYS   1 registry     hash
       2 index        sorted set   what was changed here
       3.. shards     hash         one that is in the index keeps its stamp
ARGV   1 generation   where the registry has none yet
REPLY  OK version [narrowed]...   the version of the bucket; of these shards (from 1) those with the field z
ERROR  none of its own
COST   O(shards); up to 1 command each, and one for many of them; and what notes_enter takes for all that is noted
]]
-- include parts/calls.lua
-- include parts/enter_notes.lua
local registry, index = KEYS[1], KEYS[2]

local settled = call('HMGET', registry, 'g', 'v')
local version = tonumber(settled[2] or '')
enter_notes(registry, index, math.huge) -- before it stamps: what was noted first is to be known first
if not version then
  -- What the index holds may be of a registry that was lost: no stamp is ahead of the version.
  local last = call('ZREVRANGE', index, '0', '0', 'WITHSCORES')[2]
  version = tonumber(last or '0')
end
local stamp = string.format('%.0f', version + 1)

local GROUP = 1000
for first = 3, #KEYS, GROUP do
  local stamps = {}
  for i = first, math.min(first + GROUP - 1, #KEYS) do
    stamps[#stamps + 1] = stamp
    stamps[#stamps + 1] = string.sub(KEYS[i], #registry + 2)
  end
  call('ZADD', index, 'NX', unpack(stamps))
end
-- No key, but too long for a small set to be packed: a change would take time by the size of the set then.
call('ZADD', index, 'NX', '0', '0:' .. string.rep('-', 64))
if settled[1] then
  call('HSET', registry, 'v', stamp)
else
  call('HSET', registry, 'g', ARGV[1], 'n', '0', 'c', '0', 'v', stamp)
end
local reply = {'OK', stamp}
for i = 3, #KEYS do
  local key = KEYS[i]
  if string.find(key, '^0:', #registry + 2) and type(pcall('HGET', key, 'z')) == 'string' then
    reply[#reply + 1] = i - 2
  end
end
return reply
