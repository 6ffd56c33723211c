-- The registry's record; it is made, with the generation that is given, where there is none.
local settled = call('HMGET', registry, 'g', 'n', 'v', 'p', 'h')
local index, generation, issued = KEYS[2], settled[1], tonumber(settled[2] or '0')
local made = not generation
if made then
  if ARGV[1] == '' then return {'UNKNOWN'} end
  generation = ARGV[1]
  call('HSET', registry, 'g', generation, 'n', '0', 'c', '0')
  pcall('ZADD', index, 'NX', '0', '0:' .. string.rep('-', 64)) -- as in actor_open
end
