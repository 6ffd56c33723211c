--[[
namespace_open: the namespace has its record; what was settled first stays.

KEYS   1 meta      hash
ARGV   1 schema    version of the layout of keys
       2 buckets   number of buckets, where none is settled yet
       3 region    name of this deployment among its peers, where none is settled yet
REPLY  OK schema buckets region   as settled
ERROR  none of its own
COST   O(1); up to 2 commands; where all is settled it writes nothing
]]
local meta = KEYS[1]
local settled = redis.call('HMGET', meta, 'schema', 'buckets', 'region')
local schema, buckets, region = settled[1] or ARGV[1], settled[2] or ARGV[2], settled[3] or ARGV[3]
if not (settled[1] and settled[2] and settled[3]) then
  redis.call('HSET', meta, 'schema', schema, 'buckets', buckets, 'region', region)
end
return {'OK', schema, buckets, region}
