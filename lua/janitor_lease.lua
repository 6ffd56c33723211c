--[[
janitor_lease: of many clients, one in a period does the housekeeping.

It spares work and guards nothing: any number of janitors may work at the same time.

KEYS   1 meta     hash
ARGV   1 period   seconds since the last lease; 0: in any case
REPLY  OK now      go on; the server's time in seconds
       LATER now   nothing written: another client did so lately
       NONE        nothing written: the namespace has no record, so nothing was counted
ERROR  BADARG ...  nothing written
COST   O(1); up to 4 commands
]]
-- include parts/calls.lua
-- include parts/whole.lua
local meta = KEYS[1]
local period = whole(ARGV[1])
if not period then return redis.error_reply('BADARG janitor_lease: period is no number') end
local settled = call('HMGET', meta, 'schema', 'j')
if not settled[1] then return {'NONE'} end
local now = call('TIME')[1]
-- Below zero: another server, with another clock, has answered before.
local passed = tonumber(now) - (tonumber(settled[2] or '0') or 0)
if passed >= 0 and passed < period then return {'LATER', now} end
call('HDEL', meta, '') -- as in actors_reap: not to be stopped by lack of memory
call('HSET', meta, 'j', now)
return {'OK', now}
