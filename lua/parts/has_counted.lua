-- A shard has counted: it is stamped, once, and gets a dot if it is new. Returns 2 where that is so, else 1.
local has_dot = {}
local function has_counted(key)
  local new = 0
  if not has_dot[key] then
    new = give_dot(key)
    has_dot[key] = true
    has_changed(key)
  end
  return new == 1 and '2' or '1'
end
