--[[
shard_unseal: a shard that was sealed takes counts again, and holds what it held.

Only for a client that, after it has learnt the id, has published in shard 0 a number of shards that includes this one.

KEYS   1 shard        hash
ARGV   1 id           that it is sealed with, as the refusal told
REPLY  OK             it is a hash again, or nothing if it held nothing
       OTHER          nothing written: it is not sealed, or with another id by now
ERROR  BADARG ...     nothing written
COST   O(1); 5 commands
]]
-- include parts/calls.lua
local key, id = KEYS[1], ARGV[1]
if not string.find(id, '^%S+$') then return redis.error_reply('BADARG shard_unseal: id is none') end
if call('TYPE', key).ok ~= 'string' then return {'OTHER'} end
local by, dot, plus, minus = string.match(call('GET', key), '^sealed (%S+) %d+ (%S+) (%d+) (%d+)$')
if by ~= id then return {'OTHER'} end

-- The text is gone between two commands: a user who may not do the second, or a server without memory for it, must be
-- seen before. (A time in the past deletes: DEL could not be tried in the search for a missing right, see wire/acl.py.)
local trial = pcall('HSET', key, 'd', dot).err
if not string.find(trial, '^WRONGTYPE') then call('HSET', key, 'd', dot) end
call('PEXPIREAT', key, '1')
if dot ~= '-' then call('HSET', key, 'd', dot, '+', plus, '-', minus) end
return {'OK'}
