--[[
actor_close: the actor takes no more flushes; its slots may be folded.

KEYS   1 registry   hash
ARGV   1 actor
       2 base       the highest number the owner saw acknowledged
REPLY  OK seq        closed, now or before
       FOLDED seq    was folded already
       REGRESS seq   nothing written: acknowledged flushes are missing, a fail-over lost them
       UNKNOWN       nothing written: no such actor, or its record is unreadable
ERROR  BADARG ...    nothing written
COST   O(1); up to 4 commands
]]
-- include parts/whole.lua
local registry, actor = KEYS[1], ARGV[1]
local base = whole(ARGV[2])
if not base then return redis.error_reply('BADARG actor_close: base is no number') end
local record = redis.call('HGET', registry, actor)
local state, recorded, rest = string.match(record or '', '^(%a) (%d+) %d+ (.*)$')
if not state then return {'UNKNOWN'} end
local seq = tonumber(recorded)
if state == 'f' then return {'FOLDED', seq} end
if seq < base then return {'REGRESS', seq} end
if state == 'o' then
  -- Lack of memory must not stop what leads to freeing some: HDEL needs none, and Redis checks only the first write.
  redis.call('HDEL', registry, '')
  redis.call('HSET', registry, actor, 'c ' .. recorded .. ' ' .. redis.call('TIME')[1] .. ' ' .. rest)
end
return {'OK', seq}
