-- include parts/calls.lua
-- include parts/changes.lua
-- Gives the shard a dot if it has none. Returns 1 if the shard is new, else 0.
local function give_dot(changes, key)
  local new = call('HSETNX', key, 'd', changes.dot)
  if new == 1 then
    local dot = dot_of(changes, key)
    if dot ~= changes.dot then call('HSET', key, 'd', dot) end
  end
  return new
end
