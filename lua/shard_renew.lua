--[[
shard_renew: what this region has counted in this shard is an earlier key's; from now on it counts under a new dot.

For a region that fell back behind its peers, as a restored backup does: they have more of what it counted under its dot
than itself, and what is counted under that dot anew does not show until it is more. No value changes by it. Slots stay,
each with a floor as high as itself: so a late copy of a flush changes nothing.

KEYS   1 registry     hash
       2 index        sorted set   what was changed here
       3 shard        hash; or sealed (shard_seal), then it stays so
ARGV   1 generation   of the new dot: drawn anew, for numbers fell back too, and a dot must be like none before
REPLY  OK entry       what is an earlier key's now: `/DOT,P,N`; empty, if nothing was counted here
       UNJOINED       nothing written: changes are not stamped here
ERROR  BADARG ...     nothing written, but that notes may be entered, and its dot settled
       WRONGTYPE      the counter's key holds something else, or the index does; the same
COST   O(1); 16 commands; one of them reads the shard, one or two are for each 1,000 fields that are written;
       and what notes_enter takes for all that is noted
]]
-- include parts/calls.lua
-- include parts/less.lua
-- include parts/is_count.lua
-- include parts/sums.lua
-- include parts/enter_notes.lua
-- include parts/moments.lua
-- include parts/settle_dot.lua
local registry, index, key = KEYS[1], KEYS[2], KEYS[3]
local SIGNS = {'+', '-'}
if ARGV[1] == '' then return redis.error_reply('BADARG shard_renew: there is no generation') end

if not call('HGET', registry, 'v') then return {'UNJOINED'} end
if call('TYPE', key).ok == 'string' and string.find(call('GET', key), '^sealed ') then return {'OK', ''} end
enter_notes(registry, index, math.huge) -- so what its dot is, is known
settle_dot(registry, index, key)

local fields = call('HGETALL', key)
local sums, own, dot, news, held = {{0}, {0}}, {'0', '0'}, nil, {}, {}
for i = 1, #fields, 2 do
  if fields[i] == 'd' then dot = fields[i + 1] end
end
if not dot then return {'OK', ''} end
for i = 1, #fields, 2 do
  local field, count = fields[i], fields[i + 1]
  local sign = string.match(field, '[+-]$')
  local place = sign == '+' and 1 or 2
  if sign and not is_count(count) then
    return redis.error_reply('BADARG shard_renew: a field holds what is no count')
  elseif sign and field == '@/' .. dot .. sign then
    own[place] = count
  elseif sign and not string.find(field, '@', 1, true) then
    local floor = string.sub(field, 1, 1) == '~'
    add(sums[place], count, floor and -1 or 1)
    if string.find(field, '^%d*[+-]$') then
      held[#held + 1] = field
    elseif not floor then
      news[#news + 1] = '~' .. field
      news[#news + 1] = count
    end
  end
end
for n = 1, 2 do
  local live = written(sums[n]) or '0'
  if less(own[n], live) then own[n] = live end
end
if own[1] == '0' and own[2] == '0' then return {'OK', ''} end

for n = 1, 2 do
  if own[n] ~= '0' then
    news[#news + 1] = '@/' .. dot .. SIGNS[n]
    news[#news + 1] = own[n]
  end
end
local number = string.format('%.0f', tonumber(call('HGET', registry, 'n') or '0') + 1)
news[#news + 1] = 'd'
news[#news + 1] = ARGV[1] .. '.' .. number

call('ZADD', index, 'XX', '0', '') -- what would be refused later is refused now
local PIECE = 1000
for first = 1, #news, 2 * PIECE do
  call('HSET', key, unpack(news, first, math.min(first + 2 * PIECE - 1, #news)))
end
for first = 1, #held, PIECE do
  call('HDEL', key, unpack(held, first, math.min(first + PIECE - 1, #held)))
end
call('HSET', registry, 'n', number)
local version = string.format('%.0f', call('HINCRBY', registry, 'v', '1'))
keep_moment(registry, version)
call('ZADD', index, version, string.sub(key, #registry + 2))
return {'OK', '/' .. dot .. ',' .. own[1] .. ',' .. own[2]}
