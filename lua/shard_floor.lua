--[[
shard_floor: of what this shard holds, other regions are not told again what shard 0 holds a copy of and tells them.

For a counter that was given fewer shards (narrow_apply) before its namespace joined others. Readers here know the copy;
there it is a part of shard 0. So as much as it lies under a floor here, and a seal has nothing behind it any more. No
value changes by it.

KEYS   1 registry    hash
       2 index       sorted set   what was changed here
       3 shard       hash, or sealed (shard_seal)
ARGV   1 dot         of the key that was copied
       2 plus        the copy
       3 minus
REPLY  OK done       1: something was written; 0: it was so before, or this is another key, or of another type
       UNJOINED      nothing written: changes are not stamped here
ERROR  BADARG ...    nothing written
COST   O(1); 13 commands; and what notes_enter takes for all that is noted
]]
-- include parts/calls.lua
-- include parts/is_count.lua
-- include parts/less.lua
-- include parts/enter_notes.lua
-- include parts/moments.lua
-- include parts/settle_dot.lua
local registry, index, key = KEYS[1], KEYS[2], KEYS[3]
local dot = ARGV[1]
if #ARGV ~= 3 or dot == '' or not is_count(ARGV[2]) or not is_count(ARGV[3]) then
  return redis.error_reply('BADARG shard_floor: there is no dot, or there are no counts')
end

if not call('HGET', registry, 'v') then return {'UNJOINED'} end
enter_notes(registry, index, math.huge) -- so what its dot is, is known
settle_dot(registry, index, key)
local version = call('HGET', registry, 'v')

local kind = call('TYPE', key).ok
if kind == 'string' then
  local id, since, its, plus, minus = string.match(call('GET', key), '^sealed (%S+) (%d+) (%S+) (%d+) (%d+)$')
  if its == dot and not less(ARGV[2], plus) and not less(ARGV[3], minus) then
    call('SET', key, table.concat({'sealed', id, since, '-', '0', '0'}, ' '))
    return {'OK', 1}
  end
end
if kind ~= 'hash' then return {'OK', 0} end

local names = {'@/' .. dot .. '+', '@/' .. dot .. '-', '~@/' .. dot .. '+', '~@/' .. dot .. '-'}
local there = call('HMGET', key, 'd', unpack(names))
if there[1] ~= dot and not (there[2] or there[3] or there[4] or there[5]) then return {'OK', 0} end
local grown = {}
for n = 1, 4 do
  local count = ARGV[n % 2 == 1 and 2 or 3]
  if less(there[n + 1] or '0', count) then
    grown[#grown + 1] = names[n]
    grown[#grown + 1] = count
  end
end
if #grown == 0 then return {'OK', 0} end
local stamp = string.format('%.0f', tonumber(version) + 1)
call('ZADD', index, stamp, string.sub(key, #registry + 2))
call('HSET', key, unpack(grown))
call('HSET', registry, 'v', stamp)
keep_moment(registry, stamp)
return {'OK', 1}
