--[[
slots_read: what is in these shards, one text each.

A text of all fields and values is a third of the cost of a nested list, to the server and to the client.

KEYS   1.. shards   hash
ARGV   none
REPLY  a list, one text per shard: field value field value ... parted by blanks; empty if there is no such key; of one
       that was sealed (shard_seal) what it holds, as the fields + and -, its dot, and z, the id that it is sealed with
ERROR  WRONGTYPE in a shard's place: its text starts with "!" and is the error
COST   O(fields); 1 command per shard, 2 where one is no hash; writes nothing
]]
-- include parts/calls.lua
local texts, concat = {}, table.concat
for i = 1, #KEYS do
  local fields = pcall('HGETALL', KEYS[i])
  if fields.err then
    local found = pcall('GET', KEYS[i])
    local sealed = type(found) == 'string' and found or ''
    local id, dot, plus, minus = string.match(sealed, '^sealed (%S+) %d+ (%S+) (%d+) (%d+)$')
    texts[i] = id and 'z ' .. id .. ' d ' .. dot .. ' + ' .. plus .. ' - ' .. minus or '!' .. fields.err
  else
    texts[i] = concat(fields, ' ')
  end
end
return texts
