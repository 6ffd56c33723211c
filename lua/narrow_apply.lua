--[[
narrow_apply: a counter has fewer shards; what the others hold counts in shard 0, in one step, and is not read there.

What a shard held is copied under its number and dot: a slot of no actor, which no fold touches. A reader that
reads such a shard all the same counts only what it holds beyond the copy: so its content counts once at any time.

KEYS   1 registry     hash
       2 shard        hash   shard 0 of the counter
ARGV   1 id           of the narrowing
       2 wanted       number of shards
       3.. values     of each sealed shard: copy, as slots are named after it; plus, minus
REPLY  OK             done
       VOID           nothing written: a number of shards was published since it began, or it was another; or the
                      namespace has joined other regions
ERROR  BADARG ...     nothing written
COST   O(shards); 1 command each
]]
-- include parts/calls.lua
local registry, key, id, wanted = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
if #ARGV % 3 ~= 2 then
  return redis.error_reply('BADARG narrow_apply: ' .. #ARGV .. ' arguments do not fit')
end
for v = 3, #ARGV, 3 do
  if not (string.find(ARGV[v], '^s%.') and string.find(ARGV[v + 1], '^%d+$') and string.find(ARGV[v + 2], '^%d+$')) then
    return redis.error_reply('BADARG narrow_apply: value ' .. v .. ' is no copy, or no counts follow')
  end
end
if call('HGET', registry, 'v') or call('HGET', key, 'z') ~= id .. ':' .. wanted then return {'VOID'} end

-- (A copy that is there already is of an earlier time, so it is no larger.)
for v = 3, #ARGV, 3 do
  call('HSET', key, ARGV[v] .. '+', ARGV[v + 1], ARGV[v] .. '-', ARGV[v + 2])
end
call('HSET', key, 'k', wanted)
return {'OK'}
