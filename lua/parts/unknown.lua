-- Of a shard in a note of new ones, and of one with a flag, it is not known yet whether the first dot is its own.
local unknown
local function is_unknown(key, dot)
  if not find(dot, '%.0$') then return false end
  if not unknown then
    unknown = {}
    local found = call('ZRANGEBYSCORE', index, '-inf', '0')
    for i = 1, #found do
      local kind, names = names_in(found[i])
      if kind == 'm' or kind == 'r' then
        for n = 1, #names do unknown[names[n]] = true end
      end
    end
  end
  return unknown[sub(key, #index + 2)] == true
end
