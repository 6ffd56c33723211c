-- Other regions learn of it by its stamp, where changes are stamped.
local function has_changed(key)
  if not stamp then return end
  changed[#changed + 1] = stamp
  changed[#changed + 1] = string.sub(key, #registry + 2)
end

-- The dot of a key that is new. One that the index does not hold was never counted here: should a fail-over take it
-- back, it gets the same again. Where changes are not stamped, every dot is another.
local function dot_of(key)
  if stamp and not call('ZSCORE', KEYS[2], string.sub(key, #registry + 2)) then return generation .. '.0' end
  dot_used = true
  return dot
end
