--[[
narrow_open: a narrowing of a counter to fewer shards has begun; nothing that counts is changed.

Fields of shard 0: z, the narrowing's id and number of shards, or "-". To publish a number of shards, also the same
again, makes it void: then the shards that are to go may be counted in. o, the number of key shards, is settled too,
for keys must not be spread over more shards later than are left.

KEYS   1 registry     hash
       2 shard        hash   shard 0 of the counter
ARGV   1 wanted       number of shards
REPLY  OK id shards   what the shards to go are sealed with, and the number of shards now; that of one that has begun
                      to the same number
       FEW shards     nothing written: there are no more than that
       KEYED keys     nothing written: its keys, or users, are spread over more shards
       EXPIRES        nothing written: the counter expires, and a seal would not
       JOINED         nothing written: shards must be the same in all regions
       UNKNOWN        nothing written: there is no registry
ERROR  BADARG ...     nothing written
       WRONGTYPE      the counter's key holds something else
COST   O(1); 5 commands
]]
-- include parts/calls.lua
-- include parts/less.lua
local registry, key, wanted = KEYS[1], KEYS[2], ARGV[1]
if not string.find(wanted, '^[1-9]%d*$') then
  return redis.error_reply('BADARG narrow_open: wanted is no number')
end
local settled = call('HMGET', registry, 'g', 'n', 'v')
if not settled[1] then return {'UNKNOWN'} end
if settled[3] then return {'JOINED'} end

local there = call('HMGET', key, 'k', 'o', 'z')
local shards = there[1] or '1'
if not less(wanted, shards) then return {'FEW', shards} end
if there[2] and less(wanted, there[2]) then return {'KEYED', there[2]} end
if call('PTTL', key) >= 0 then return {'EXPIRES'} end

local id, to = string.match(there[3] or '', '^(%S+):(%d+)$')
if to ~= wanted then
  local highest = string.format('%.0f', tonumber(settled[2]) + 1)
  id = settled[1] .. '.' .. highest
  call('HSET', registry, 'n', highest)
end
call('HSET', key, 'z', id .. ':' .. wanted, 'o', there[2] or wanted)
return {'OK', id, shards}
