-- include parts/calls.lua
-- include parts/notes.lua
-- include parts/moments.lua
-- A shard that was made again, and has a flag for it, gets the dot of another thing, and is stamped. (By name, beside
-- notes: from now on its dot is known.)
local function settle_dot(registry, index, key)
  local name = string.sub(key, #registry + 2)
  if not call('ZSCORE', index, flag_of(name)) then return end
  call('ZREM', index, '') -- as in actors_reap: not to be stopped by lack of memory
  local dot = pcall('HGET', key, 'd')
  if type(dot) == 'string' then
    if string.find(dot, '%.0$') then
      local number = call('HINCRBY', registry, 'n', '1')
      call('HSET', key, 'd', string.format('%s.%.0f', call('HGET', registry, 'g'), number))
    end
    local version = string.format('%.0f', call('HINCRBY', registry, 'v', '1'))
    keep_moment(registry, version)
    call('ZADD', index, version, name)
  end
  call('ZREM', index, flag_of(name)) -- last: where one of these is denied, it is done again
end
