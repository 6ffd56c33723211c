-- What the parts above have gathered is written.
if dot_used then call('HSET', registry, 'n', highest) end
for first = 1, #changed, 2000 do
  call('ZADD', KEYS[2], unpack(changed, first, math.min(first + 1999, #changed)))
end
if #changed > 0 then call('HSET', registry, 'v', stamp) end
