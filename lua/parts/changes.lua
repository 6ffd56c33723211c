-- Other regions learn of it by its stamp, where changes are stamped.
local function has_changed(key)
  if stamp then changed[#changed + 1] = string.sub(key, #registry + 2) end
end

-- The dot of a key that is new. One that the index does not hold was never counted here: should a fail-over take it
-- back, it gets the same again. Where changes are not stamped, every dot is another.
local function dot_of(key)
  local name = stamp and string.sub(key, #registry + 2)
  if name and not looks_up then
    created[#created + 1] = name
    return first_dot
  end
  if name and not call('ZSCORE', index, name) then return first_dot end
  dot_used = true
  return dot
end
