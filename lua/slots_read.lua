--[[
slots_read: what is in these shards, one text each.

A text of all fields and values is a third of the cost of a nested list, to the server and to the client.

KEYS   1.. shards   hash
ARGV   none
REPLY  a list, one text per shard: field value field value ... parted by blanks; empty if there is no such key
ERROR  WRONGTYPE in a shard's place: its text starts with "!" and is the error
COST   O(fields); 1 command per shard; writes nothing
]]
local texts = {}
for i = 1, #KEYS do
  local fields = redis.pcall('HGETALL', KEYS[i])
  texts[i] = fields.err and '!' .. fields.err or table.concat(fields, ' ')
end
return texts
