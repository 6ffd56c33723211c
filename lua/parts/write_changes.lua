-- include parts/calls.lua
-- include parts/stamp_all.lua
-- Writes the changes that a call has gathered (changes.lua): stamps, and what changes in the registry.
local function write_changes(changes)
  local fields, registry = {}, changes.registry
  if changes.dot_used then fields = {'n', changes.highest} end
  stamp_all(changes, fields)
  if #fields > 0 then call('HSET', registry, unpack(fields)) end
end
