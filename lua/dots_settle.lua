--[[
dots_settle: each of these shards that was lost here and made again has the dot of another thing.

A shard that is made by a large flush, or while there are notes, gets the first dot, before anybody has looked whether
it was counted here before. That is seen when its note is entered in the index: then it has a flag, and is not told
until this has been done. (By a fail-over, the index would have been taken back too: then it is the same thing again,
and has no flag.)

KEYS   1 registry    hash
       2 index       sorted set   what was changed here, notes, and flags
       3.. shards    hash         one that has no flag stays as it is
ARGV   none
REPLY  OK            done; they are stamped, so they are told next
       UNJOINED      nothing written: changes are not stamped here
ERROR  none of its own
COST   O(shards); up to 11 commands each
]]
-- include parts/calls.lua
-- include parts/settle_dot.lua
local registry, index = KEYS[1], KEYS[2]

if not call('HGET', registry, 'v') then return {'UNJOINED'} end
for i = 3, #KEYS do settle_dot(registry, index, KEYS[i]) end
return {'OK'}
