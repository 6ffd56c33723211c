-- include parts/calls.lua
-- include parts/changes.lua
-- include parts/enter_notes.lua
-- include parts/moments.lua
-- Notes names in one member of the index.
local function put_note(changes, kind, names)
  if #names == 0 then return end
  local index, stamp = changes.index, changes.stamp
  -- The same changes again are the same member, where it was: else what was made in between would come before it.
  local head = '\n' .. kind .. (kind == 'm' and stamp or '') .. '\n'
  if string.find(table.concat(names), '\n', 1, true) then -- a name may be any bytes: such a one has its own
    local plain = {}
    for i = 1, #names do
      if string.find(names[i], '\n', 1, true) then
        changes.noted = changes.noted + call('ZADD', index, 'NX', '-' .. stamp, string.upper(head) .. names[i])
      else
        plain[#plain + 1] = names[i]
      end
    end
    return put_note(changes, kind, plain)
  end
  local added = call('ZADD', index, 'NX', '-' .. stamp, head .. table.concat(names, '\n'))
  changes.noted = changes.noted + #names * added
end

-- Stamps the shards that these changes name (changes.lua). Many names are not entered in the index one by one, which
-- would take as long as all the rest, but are one member, a note: its score is less than 0 by the stamp. A script that
-- asks for changes enters them first (enter_notes). While there are notes, all that changes is noted behind them. Adds
-- to `fields` what changes in the registry, fields and values.
local function stamp_all(changes, fields)
  local registry, index, stamp = changes.registry, changes.index, changes.stamp
  local changed, created = changes.changed, changes.created
  local count = #changed + #created
  if count == 0 then return end
  if changes.noted > 0 or count >= FEW or #created > 0 then
    if changes.noted >= MOST then -- no peer asks
      enter_notes(registry, index, count)
      changes.noted = tonumber(call('HGET', registry, 'p'))
    end
    put_note(changes, 'm', created)
    put_note(changes, 'c', changed)
    fields[#fields + 1] = 'p'
    fields[#fields + 1] = string.format('%.0f', changes.noted)
  else
    local stamps = {}
    for i = 1, count do stamps[2 * i - 1], stamps[2 * i] = stamp, changed[i] end
    call('ZADD', index, unpack(stamps))
  end
  fields[#fields + 1] = 'v'
  fields[#fields + 1] = stamp
  local moments = with_moment(changes.moments or '', stamp)
  if moments then
    fields[#fields + 1] = 'h'
    fields[#fields + 1] = moments
  end
end
