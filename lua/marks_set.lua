--[[
marks_set: fields of a bucket's marks are as told. (Where they stand for something merged, entries_merge sets them.)

KEYS   1 marks       hash
ARGV   1.. values    of each: field, value
REPLY  OK            set
ERROR  BADARG ...    nothing written
COST   O(fields); 0 commands each; 1 for all
]]
if #ARGV == 0 or #ARGV % 2 ~= 0 then
  return redis.error_reply('BADARG marks_set: ' .. #ARGV .. ' arguments are no fields with a value each')
end
redis.call('HSET', KEYS[1], unpack(ARGV))
return {'OK'}
