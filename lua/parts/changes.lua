-- include parts/calls.lua
local FEW, MOST = 50, 20000 -- names in a note, at least; in all notes, about

-- Returns the changes that one call makes in a bucket: it gathers them, write_changes or stamp_all writes them at its
-- end. `settled`: the registry's g, n, v, p and h. `news`: how many shards may be new, if that is known.
--   registry, index     keys
--   dot, first_dot      of the new shards of this call; of those that were never counted here
--   highest, dot_used   the number in `dot`, and whether a shard has got it
--   stamp               the next version of the bucket; false where changes are not stamped
--   changed, created    names to be stamped; names of new shards that are not looked up in the index
--   noted, looks_up     how many names are noted; whether a new shard is looked up: while there are notes, the index
--                       does not hold yet what it has to say of a name, and many are looked up when it does
--   moments             when earlier versions were
local function new_changes(registry, index, settled, news)
  local stamp, noted = settled[3], tonumber(settled[4] or '0') or 0
  local highest = string.format('%.0f', tonumber(settled[2] or '0') + 1)
  if stamp then
    stamp = string.format('%.0f', tonumber(stamp) + 1)
    -- What would be refused later is refused now.
    call('ZREVRANGEBYSCORE', index, '0', '1')
    call('ZSCORE', index, '')
    call('ZMSCORE', index, '')
    call('ZADD', index, 'XX', '0', '') -- (before ZREM, which needs no memory: so the server says now if it has none)
    call('ZREM', index, '')
  end
  return {
    registry = registry, index = index,
    dot = settled[1] .. '.' .. highest, first_dot = settled[1] .. '.0',
    highest = highest, dot_used = false,
    stamp = stamp, changed = {}, created = {},
    noted = noted, looks_up = noted == 0 and (news or 0) < FEW,
    moments = settled[5],
  }
end

-- The shard is to be stamped, where changes are: so other regions learn of its change.
local function has_changed(changes, key)
  if changes.stamp then
    local changed = changes.changed
    changed[#changed + 1] = string.sub(key, #changes.registry + 2)
  end
end

-- Returns the dot of a new shard. One that the index does not know was never counted here: should a fail-over take it
-- back, it gets the same dot again. Where changes are not stamped, a dot is never given twice.
local function dot_of(changes, key)
  local name = changes.stamp and string.sub(key, #changes.registry + 2)
  if name and not changes.looks_up then
    changes.created[#changes.created + 1] = name
    return changes.first_dot
  end
  local index = changes.index
  if name and not call('ZSCORE', index, name) then return changes.first_dot end
  changes.dot_used = true
  return changes.dot
end
