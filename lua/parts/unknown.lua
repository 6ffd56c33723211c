-- include parts/calls.lua
-- include parts/notes.lua
-- Returns whether it is not known yet that a shard's dot is its own: a first one, in a note of new shards, or with a
-- flag. `known`: empty at first; it keeps these names, so that the index is read once.
local function is_unknown(known, index, key, dot)
  if not string.find(dot, '%.0$') then return false end
  if not known.names then
    known.names = {}
    local found = call('ZRANGEBYSCORE', index, '-inf', '0')
    for i = 1, #found do
      local kind, names = names_in(found[i])
      if kind == 'm' or kind == 'r' then
        for n = 1, #names do known.names[names[n]] = true end
      end
    end
  end
  return known.names[string.sub(key, #index + 2)] == true
end
