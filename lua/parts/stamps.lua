-- The dot of this call's new keys; the next version, where changes are stamped; what is stamped by it, in pairs.
local highest = string.format('%.0f', issued + 1)
local dot, dot_used = generation .. '.' .. highest, false
local stamp, changed = settled[3] and string.format('%.0f', tonumber(settled[3]) + 1), {}
if stamp then -- what would be refused later is refused now
  call('ZSCORE', KEYS[2], '')
  call('ZADD', KEYS[2], 'XX', '0', '')
end
