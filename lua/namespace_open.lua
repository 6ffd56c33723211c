--[[
namespace_open: the namespace has its record; what was settled first stays.

KEYS   1 meta      hash
ARGV   1 schema    version of the layout of keys
       2 buckets   number of buckets, where none is settled yet
       3 region    name of this deployment among its peers, where none is settled yet
REPLY  OK schema buckets region   as settled
ERROR  none of its own
COST   O(1); 4 commands
]]
local meta = KEYS[1]
redis.call('HSETNX', meta, 'schema', ARGV[1])
redis.call('HSETNX', meta, 'buckets', ARGV[2])
redis.call('HSETNX', meta, 'region', ARGV[3])
local settled = redis.call('HMGET', meta, 'schema', 'buckets', 'region')
return {'OK', settled[1], settled[2], settled[3]}
