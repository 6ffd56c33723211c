--[[
actors_reap: of these actors, those that were open and have been silent for long are closed.

Their owners may live: they are answered CLOSED, and open them again. A time of closing is that of this call.

KEYS   1 registry   hash
ARGV   1 ttl        seconds since the last change of a record
       2.. actors
REPLY  OK now [actor]...   the server's time in seconds, and the actors that this call has closed
ERROR  BADARG ...          nothing written
COST   O(actors); up to 2 commands each
]]
-- include parts/calls.lua
-- include parts/whole.lua
local registry = KEYS[1]
local ttl = whole(ARGV[1])
if not ttl then return redis.error_reply('BADARG actors_reap: ttl is no number') end
local now = call('TIME')[1]
local reply = {'OK', now}
for i = 2, #ARGV do
  local state, seq, seen, rest = string.match(call('HGET', registry, ARGV[i]) or '', '^(%a) (%d+) (%d+) (.*)$')
  if state == 'o' and tonumber(now) - tonumber(seen) >= ttl then
    -- Lack of memory must not stop what leads to freeing some: HDEL needs none, and Redis checks only the first write.
    if #reply == 2 then call('HDEL', registry, '') end
    call('HSET', registry, ARGV[i], 'c ' .. seq .. ' ' .. now .. ' ' .. rest)
    reply[#reply + 1] = ARGV[i]
  end
end
return reply
