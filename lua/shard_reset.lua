--[[
shard_reset: all that this shard counts was seen: under each entry lies a floor as high as its total. No user likes it.

Totals stay and go on growing: so a late copy of a flush changes nothing, what is counted at the same time survives, and
two resets do not add up. With `delete` the key is gone, but for the numbers of shards, which must not be forgotten; in
a joined bucket only its dot is: peers have the old entry, which stays, all floor.

KEYS   1 registry   hash
       2 index      sorted set   what was changed here
       3 shard      hash; or sealed (shard_seal), then it stays so, and holds nothing
       4 users      set
ARGV   1 delete     1, or 0
REPLY  OK entries   what there was: `REGION/DOT,P,N,FP,FN ...` as entries_read tells it; this region has no name
ERROR  BADARG ...   nothing written, but that notes may be entered, and its dot settled
       WRONGTYPE    the counter's key holds something else, or the index does; the same
COST   O(1); 18 commands; one of them reads the shard, one or two are for each 1,000 fields that are written;
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
local deletes = ARGV[1] == '1'
if not deletes and ARGV[1] ~= '0' then
  return redis.error_reply('BADARG shard_reset: delete is neither 0 nor 1')
end

-- Zeros at the end are left out; nothing, if all are.
local function told(place, entry)
  local last = 4
  while last > 0 and entry[last] == '0' do last = last - 1 end
  return last > 0 and place .. ',' .. table.concat(entry, ',', 1, last) or nil
end

if call('TYPE', key).ok == 'string' then
  local id, since, dot, plus, minus = string.match(call('GET', key), '^sealed (%S+) (%d+) (%S+) (%d+) (%d+)$')
  if id then
    call('PEXPIREAT', KEYS[4], '1')
    call('SET', key, table.concat({'sealed', id, since, '-', '0', '0'}, ' '))
    return {'OK', told('/' .. dot, {plus, minus, '0', '0'}) or ''}
  end
end

local joined = call('HGET', registry, 'v')
if joined then -- so what its dot is, is known
  enter_notes(registry, index, math.huge)
  settle_dot(registry, index, key)
end

local fields = call('HGETALL', key)
local sums, entries, held, slots, other = {{0}, {0}}, {}, {}, {}, {}
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  local floor, place, sign = string.match(field, '^(~?)@([^/]*/.*)([+-])$')
  if not place and not string.find(field, '@', 1, true) then sign = string.match(field, '[+-]$') end
  if sign and not is_count(value) then
    return redis.error_reply('BADARG shard_reset: a field holds what is no count')
  end
  if place then
    entries[place] = entries[place] or {'0', '0', '0', '0'}
    entries[place][(sign == '+' and 1 or 2) + 2 * #floor] = value
  elseif sign then
    add(sums[sign == '+' and 1 or 2], value, string.sub(field, 1, 1) == '~' and -1 or 1)
    if string.find(field, '^%d*[+-]$') then
      held[#held + 1] = field
    elseif string.sub(field, 1, 1) ~= '~' then
      slots[#slots + 1] = field
      slots[#slots + 1] = value
    end
  end
  other[field] = value
end

local settled = call('HMGET', registry, 'g', 'n')
local issued = tonumber(settled[2] or '0')
local function new_dot()
  issued = issued + 1
  return (settled[1] or '0') .. '.' .. string.format('%.0f', issued)
end
local dot = other['d'] or (#fields > 0 and new_dot()) or '' -- (it has one, unless the key was made by other means)
entries['/' .. dot] = entries['/' .. dot] or {'0', '0', '0', '0'}
local own = entries['/' .. dot]
for n = 1, 2 do
  local live = written(sums[n]) or '0'
  if less(own[n], live) then own[n] = live end
end

local places, reply = {}, {}
for place in pairs(entries) do places[#places + 1] = place end
table.sort(places)

local news, removed, seen = {}, {}, false -- fields and values; fields
local function write(field, value)
  news[#news + 1] = field
  news[#news + 1] = value
end

for i = 1, #places do
  local entry = entries[places[i]]
  reply[#reply + 1] = told(places[i], entry)
  for n = 1, 2 do
    if less(entry[n + 2], entry[n]) then
      write('~@' .. places[i] .. SIGNS[n], entry[n])
      seen = true
    end
  end
end
if other['z'] and other['z'] ~= '-' then write('z', '-') end

local gone = false
if deletes and not joined then
  news = {}
  gone = not less('1', other['k'] or '1') and not less('1', other['o'] or '1')
  for field in pairs(other) do
    if field ~= 'k' and field ~= 'o' and field ~= 'd' then removed[#removed + 1] = field end
  end
elseif deletes and #fields > 0 then
  for n = 1, 2 do
    if own[n] ~= '0' then write('@/' .. dot .. SIGNS[n], own[n]) end
  end
  for i = 1, #slots, 2 do write('~' .. slots[i], slots[i + 1]) end
  removed = held
end
if #news > 0 and deletes then
  write('d', new_dot())
elseif #news > 0 and not other['d'] then
  write('d', dot)
end

if joined then -- what would be refused later is refused now; as in actors_reap: not to be stopped by lack of memory
  call('HDEL', registry, '')
  call('ZADD', index, 'XX', '0', '')
end
call('PEXPIREAT', KEYS[4], '1') -- a time in the past deletes
if gone then
  call('PEXPIREAT', key, '1')
  removed = {}
end
local PIECE = 1000
for first = 1, #news, 2 * PIECE do
  call('HSET', key, unpack(news, first, math.min(first + 2 * PIECE - 1, #news)))
end
for first = 1, #removed, PIECE do
  call('HDEL', key, unpack(removed, first, math.min(first + PIECE - 1, #removed)))
end
if joined and seen then
  local version = string.format('%.0f', call('HINCRBY', registry, 'v', '1'))
  keep_moment(registry, version)
  call('ZADD', index, version, string.sub(key, #registry + 2))
end
-- In any case, so that the connection has written when it is asked whether that is durable (WAIT).
if settled[1] then call('HSET', registry, 'n', string.format('%.0f', issued)) end
return {'OK', table.concat(reply, ' ')}
