-- The dot of this call's new keys; the next version, where changes are stamped; names of what is stamped by it.
-- (`settled`: the registry's g, n, v, p and h.)
local FEW, MOST = 50, 20000 -- names in a note, at least; in all notes, about
local noted = tonumber(settled[4] or '0') or 0
local highest = string.format('%.0f', issued + 1)
local dot, first_dot, dot_used = generation .. '.' .. highest, generation .. '.0', false
local stamp, changed, created = settled[3] and string.format('%.0f', tonumber(settled[3]) + 1), {}, {}
local looks_up = noted == 0 -- else the index does not hold yet what it has to say of a name
if stamp then -- what would be refused later is refused now
  call('ZREVRANGEBYSCORE', index, '0', '1')
  call('ZSCORE', index, '')
  call('ZMSCORE', index, '')
  call('ZADD', index, 'XX', '0', '') -- (before ZREM, which needs no memory: so the server says now if it has none)
  call('ZREM', index, '')
end
