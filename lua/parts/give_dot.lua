-- Returns 1 if the key is new.
local function give_dot(key)
  local new = call('HSETNX', key, 'd', dot)
  if new == 1 then
    local its = dot_of(key)
    if its ~= dot then call('HSET', key, 'd', its) end
  end
  return new
end
