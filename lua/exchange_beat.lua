--[[
exchange_beat: an exchange tells the region that it brings another one's changes to: it runs, and has got through.

Field of marks: `h:SOURCE BY`, and in it the time here, the time there, and when the next is to be expected. Those of
exchanges that have said nothing for a day are gone.

KEYS   1 marks       hash   of the first bucket
ARGV   1 source      the region whose changes are brought here
       2 by          name of the exchange, without a blank
       3 clock       server's time there, read just before; milliseconds
       4 every       milliseconds until the next one, at most; 0: there will be none
REPLY  OK now        server's time here; milliseconds
ERROR  BADARG ...    nothing written
COST   O(exchanges); 0 commands each; 5 for all
]]
-- include parts/calls.lua
-- include parts/whole.lua
local DAY = 86400000
local source, by, clock, every = ARGV[1], ARGV[2], whole(ARGV[3] or ''), whole(ARGV[4] or '')
if #ARGV ~= 4 or not string.find(source, '^[%w._-]+$') or not string.find(by, '^%S+$') or not clock or not every then
  return redis.error_reply('BADARG exchange_beat: no source, exchange, and two times')
end
local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local own, gone = 'h:' .. source .. ' ' .. by, {''}
local fields, others = call('HKEYS', KEYS[1]), {own}
for i = 1, #fields do
  if string.find(fields[i], '^h:') and fields[i] ~= own and #others < 1000 then others[#others + 1] = fields[i] end
end
local beats = call('HMGET', KEYS[1], unpack(others))
for i = 2, #others do
  local at = whole(string.match(beats[i], '^%d+') or '')
  if not at or math.abs(now - at) > DAY then gone[#gone + 1] = others[i] end
end
call('HDEL', KEYS[1], unpack(gone)) -- first, as in actors_reap: not to be stopped by lack of memory
call('HSET', KEYS[1], own, string.format('%.0f %.0f %.0f', now, clock, every))
return {'OK', string.format('%.0f', now)}
