--[[
entries_forget: what other regions have told of these shards is gone, with its floors; the own entries stay.

For a region that takes part again: it may have entries that its peers have dropped meanwhile. Not for any other.

KEYS   1.. shards    hash
ARGV   none
REPLY  OK fields     how many are gone; of a shard that is no hash none
ERROR  none of its own
COST   O(shards); up to 2 commands each; and one for each further 4,000 fields that go
]]
-- include parts/calls.lua
local gone, PIECE = 0, 4000
for i = 1, #KEYS do
  local fields, others = pcall('HKEYS', KEYS[i]), {}
  if not fields.err then
    for n = 1, #fields do
      if string.find(fields[n], '^~?@[^/]') then others[#others + 1] = fields[n] end
    end
    for first = 1, #others, PIECE do
      call('HDEL', KEYS[i], unpack(others, first, math.min(first + PIECE - 1, #others)))
    end
    gone = gone + #others
  end
end
return {'OK', gone}
