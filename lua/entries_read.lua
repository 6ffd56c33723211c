--[[
entries_read: what each of these shards tells other regions.

The canonical text of a shard: `K EXPIRY ENTRY...`. K: its field k, 0 if it is not there or 1. EXPIRY: epoch
milliseconds, or 0. ENTRY, in order of their names: `REGION/DOT,P,N,FP,FN`, what that region counted up and down in that
shard under that dot, and the floors under both; zeros at the end are left out, and entries that are all zero.
Of this region's own live dot that is all slots and bases less the floors of slots, or what was told back, if more; of a
shard whose dot may still turn out to be another (dots_settle) only the latter.

KEYS   1 index       sorted set   what was changed here, and notes
       2.. shards    hash
ARGV   1 region      name of this one
       2 without     entries of this region are left out, but for those with a floor; empty: none are
       3 shown       1: to be looked at, not merged; then what is counted under an unknown dot is told, too; 0 else
REPLY  a list, one text per shard: empty if there is no such key, or one that is sealed; "!" and the error where it
       cannot be told; behind a text a newline, "!" and the error, if an entry cannot, or k: then it is left out
       and with `shown`, where peers have told back more of the own live dot than was counted under it then, a newline,
       "?", its name, what was told and the floors, and what is counted, up and down: "NAME,P,N,FP,FN,P,N"
ERROR  BADARG ...    nothing is read
COST   O(shards); up to 2 commands each; and one for notes, of which all names are read; writes nothing
]]
-- include parts/calls.lua
-- include parts/held.lua
-- include parts/unknown.lua
local index, region, without, shown = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local byte, find, format, sub, concat = string.byte, string.find, string.format, string.sub, table.concat
if #ARGV ~= 3 or region == '' or (shown ~= '0' and shown ~= '1') then
  return redis.error_reply('BADARG entries_read: there is no region, or shown is neither 0 nor 1')
end

-- (The time first: so what is told is never later than it is, and does not grow from region to region.)
local time = call('TIME')
local now, at_once = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000), true
local function expiry_of(key)
  if at_once then
    local at = pcall('PEXPIRETIME', key)
    if type(at) == 'number' then return at end
    at_once = false -- Redis before 7.0
  end
  local left = call('PTTL', key)
  return left < 0 and left or now + left
end

local withheld, known = without .. '/', {} -- (`known`: of is_unknown)
local function text_of(key)
  local fields = pcall('HGETALL', key)
  if #fields == 4 and region ~= without then -- most often: a dot, and one slot
    local slot = fields[1] == 'd' and 3 or 1
    if fields[4 - slot] == 'd' and find(fields[slot], '^[^~@].*%+$') and find(fields[slot + 1], '^[1-9]%d*$') and
      (shown == '1' or not is_unknown(known, index, key, fields[5 - slot])) then
      local expiry = expiry_of(key)
      if expiry == -2 then return '' end
      local own = region .. '/' .. fields[5 - slot] .. ',' .. fields[slot + 1]
      return (expiry > 0 and format('0 %.0f ', expiry) or '0 0 ') .. own
    end
  end
  local shards, own, plus, minus, entries, wrong = held(region, key, fields)
  if not shards then return own and '!' .. own or '' end
  local back = ''
  if is_unknown(known, index, key, own) then
    if shown ~= '1' then plus, minus = '0', '0' end
  elseif shown == '1' and entries and entries[own] and (entries[own][1] ~= '0' or entries[own][2] ~= '0') then
    back = '\n?' .. own .. ',' .. concat(entries[own], ',') .. ',' .. plus .. ',' .. minus
  end
  local expiry = expiry_of(key)
  if expiry == -2 then return '' end
  local text = shards .. (expiry > 0 and format(' %.0f', expiry) or ' 0')
  wrong = back .. (wrong and '\n!' .. wrong or '')
  if not entries then
    if (plus == '0' and minus == '0') or region == without then return text .. wrong end
    return text .. ' ' .. own .. ',' .. plus .. (minus ~= '0' and ',' .. minus or '') .. wrong
  end
  add_own(entries, own, plus, minus)
  local names = {}
  for name, entry in pairs(entries) do
    local floors = entry[3] ~= '0' or entry[4] ~= '0'
    if floors or ((entry[1] ~= '0' or entry[2] ~= '0') and sub(name, 1, #withheld) ~= withheld) then
      names[#names + 1] = name
    end
  end
  if #names == 0 then return text .. wrong end
  table.sort(names)
  for i = 1, #names do
    local entry = entries[names[i]]
    local last = entry[4] ~= '0' and 4 or entry[3] ~= '0' and 3 or entry[2] ~= '0' and 2 or 1
    names[i] = names[i] .. ',' .. concat(entry, ',', 1, last)
  end
  return text .. ' ' .. concat(names, ' ') .. wrong
end

local texts = {}
for i = 2, #KEYS do texts[i - 1] = text_of(KEYS[i]) end
return texts
