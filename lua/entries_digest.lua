--[[
entries_digest: one number for what these shards tell other regions, equal where it is equal.

It is of what counts: without expiry, and without entries that are all floor, which may be dropped at any time. The
order of the shards does not matter. One without content, sealed, or refused by Redis, adds nothing. Of one whose dot
may still turn out to be another all is in it, which entries_read does not tell: then texts are looked at in vain.

KEYS   1.. shards    hash
ARGV   1 region      name of this one
REPLY  OK digest held   and how many of the shards have content
ERROR  BADARG ...    nothing is read
COST   O(shards); 1 command each; writes nothing
]]
-- include parts/calls.lua
-- include parts/held.lua
local region = ARGV[1]
local byte, find, format, sub, concat = string.byte, string.find, string.format, string.sub, table.concat
if #ARGV ~= 1 or region == '' then return redis.error_reply('BADARG entries_digest: there is no region') end

-- Below 2^44. A server in memory may have no SHA-1: there it is a polynomial over the bytes, of whose two halves the
-- squares are added: else what one shard has more and another less, in the same place, would not be seen in their sum.
local MODULUS, HALF = 17592186044416, 4194304
local function hash(text)
  if redis.sha1hex then return tonumber(sub(redis.sha1hex(text), 1, 11), 16) end
  local h = 0
  for i = 1, #text do h = (h * 257 + byte(text, i)) % MODULUS end
  local high, low = math.floor(h / HALF), h % HALF
  return (high * high + 3 * low * low + h) % MODULUS
end

local function text_of(key)
  local shards, own, plus, minus, entries = held(region, key, pcall('HGETALL', key))
  if not shards then return '' end
  local names = {}
  if entries then
    add_own(entries, own, plus, minus)
    for name, entry in pairs(entries) do
      if entry[1] ~= entry[3] or entry[2] ~= entry[4] then
        names[#names + 1] = name .. ',' .. concat(entry, ',')
      end
    end
    table.sort(names)
  elseif plus ~= '0' or minus ~= '0' then
    names[1] = own .. ',' .. plus .. ',' .. minus .. ',0,0'
  end
  if #names == 0 and shards == '0' then return '' end
  return key .. ' ' .. shards .. ' ' .. concat(names, ' ')
end

local sum, there = 0, 0
for i = 1, #KEYS do
  local text = text_of(KEYS[i])
  if text ~= '' then
    sum = (sum + hash(text)) % MODULUS
    there = there + 1
  end
end
return {'OK', format('%.0f', sum), there}
