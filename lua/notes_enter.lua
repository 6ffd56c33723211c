--[[
notes_enter: what is noted stands in the change index by name, so that readers of the index find it; the oldest first.

KEYS   1 registry    hash
       2 index       sorted set   what was changed here, and notes
ARGV   1 most        names to be entered, about: those of one note are entered together
REPLY  OK more       1: there are more, 0: that was all
ERROR  BADARG ...    nothing written
COST   O(notes); up to 4 commands each, and up to 2 more for each further 1,000 names of one; and 4
]]
-- include parts/whole.lua
-- include parts/enter_notes.lua


local most = whole(ARGV[1] or '')
if not most or most < 1 then return redis.error_reply('BADARG notes_enter: most is no number above 0') end
return {'OK', enter_notes(KEYS[1], KEYS[2], most) and '1' or '0'}
