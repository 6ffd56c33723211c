-- include parts/calls.lua
-- include parts/changes.lua
-- Returns the changes of one call (changes.lua). Where there is no registry it is made, with this generation; without
-- one, nothing is returned. `writes`: if the server has no memory, or takes no writes, it says so now, to the whole.
local function open_changes(registry, index, generation, writes)
  local settled = call('HMGET', registry, 'g', 'n', 'v', 'p', 'h')
  if not settled[1] then
    if generation == '' then return nil end
    settled[1] = generation
    call('HSET', registry, 'g', generation, 'n', '0', 'c', '0')
    pcall('ZADD', index, 'NX', '0', '0:' .. string.rep('-', 64)) -- as in actor_open
  elseif writes then
    call('HSET', registry, 'g', settled[1])
  end
  return new_changes(registry, index, settled)
end
