-- What the parts above have gathered is written.
local fields = {}
if dot_used then fields = {'n', highest} end
stamp_all(fields)
if #fields > 0 then call('HSET', registry, unpack(fields)) end
