--[[
actors_clean: of these actors, the records that are not needed any more are gone.

These are actors of the registry's own generation that have been folded for long, and before the last complete walk over
the bucket's counters began: so no counter has a slot of them. A record of an earlier generation stays: the registry
could not tell later that it was cleaned, and its owner could send everything again.

KEYS   1 registry    hash
ARGV   1 walked      the server's time when a walk began that is complete now; 0: no new one
       2 retention   seconds since the actor was folded
       3.. actors
REPLY  OK now [actor]...   the server's time in seconds, and whose records were removed by this call
ERROR  BADARG ...          nothing written
COST   O(actors); up to 3 commands each
]]
-- include parts/calls.lua
-- include parts/whole.lua
local registry = KEYS[1]
local walked, retention = whole(ARGV[1]), whole(ARGV[2])
if not walked or not retention then
  return redis.error_reply('BADARG actors_clean: walked and retention are not both numbers')
end
local now = call('TIME')[1]
local settled = call('HMGET', registry, 'g', 'c', 'w')
local generation, cleaned, last_walk = settled[1], tonumber(settled[2] or '0'), tonumber(settled[3] or '0')
local reply = {'OK', now}
if not generation then return reply end
if walked > 0 then
  call('HDEL', registry, '')
  call('HSET', registry, 'w', ARGV[1])
  last_walk = walked
end

local highest, owners = cleaned, {}
for i = 3, #ARGV do
  local state, seen, owner = string.match(call('HGET', registry, ARGV[i]) or '', '^(%a) %d+ (%d+) (%S+)')
  local its_generation, number = string.match(ARGV[i], '^(%w+)%.(%d+)%.')
  if state == 'f' and its_generation == generation then
    local folded = tonumber(seen)
    if folded < last_walk and tonumber(now) - folded >= retention then
      highest = math.max(highest, tonumber(number))
      reply[#reply + 1] = ARGV[i]
      owners[#owners + 1] = '@' .. owner
    end
  end
end
-- First the mark by which a reopening learns of it, then the records.
if highest > cleaned then
  call('HDEL', registry, '')
  call('HSET', registry, 'c', string.format('%.0f', highest))
end
for i = 1, #owners do
  local actor, owner = reply[i + 2], owners[i]
  if call('HGET', registry, owner) == actor then
    call('HDEL', registry, actor, owner)
  else
    call('HDEL', registry, actor) -- the owner has been given another actor since
  end
end
return reply
