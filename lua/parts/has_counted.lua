-- include parts/changes.lua
-- include parts/give_dot.lua
-- A shard has counted, perhaps not for the first time in this call (`shards`: those before): it is stamped, and gets a
-- dot if it is new. Returns 2 where that is so, else 1.
local function has_counted(changes, shards, key)
  if shards[key] then return '1' end
  shards[key] = true
  local new = give_dot(changes, key)
  has_changed(changes, key)
  return new == 1 and '2' or '1'
end
