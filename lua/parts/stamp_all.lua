-- Stamps what was gathered, by name: in `changed`, and in `created` shards that were new and are not looked up in the
-- index. Many names are not entered one by one, which would take as long as all the rest, but are one member, a note:
-- its score is less than 0 by the stamp. Who asks for changes enters them first (enter_notes). While there are notes,
-- all that changes is noted behind them. Adds to `fields` what changes in the registry.
local function put_note(kind, names)
  if #names == 0 then return end
  -- The same changes again are the same member, where it was: else what was made in between would come before it.
  local head = '\n' .. kind .. (kind == 'm' and stamp or '') .. '\n'
  if string.find(table.concat(names), '\n', 1, true) then -- a name may be any bytes: such a one has its own
    local plain = {}
    for i = 1, #names do
      if string.find(names[i], '\n', 1, true) then
        noted = noted + call('ZADD', index, 'NX', '-' .. stamp, string.upper(head) .. names[i])
      else
        plain[#plain + 1] = names[i]
      end
    end
    return put_note(kind, plain)
  end
  noted = noted + #names * call('ZADD', index, 'NX', '-' .. stamp, head .. table.concat(names, '\n'))
end

local function stamp_all(fields)
  local count = #changed + #created
  if count == 0 then return end
  if noted > 0 or count >= FEW or #created > 0 then
    if noted >= MOST then -- nobody asks
      enter_notes(count)
      noted = tonumber(call('HGET', registry, 'p'))
    end
    put_note('m', created)
    put_note('c', changed)
    fields[#fields + 1] = 'p'
    fields[#fields + 1] = string.format('%.0f', noted)
  else
    local stamps = {}
    for i = 1, count do stamps[2 * i - 1], stamps[2 * i] = stamp, changed[i] end
    call('ZADD', index, unpack(stamps))
  end
  fields[#fields + 1] = 'v'
  fields[#fields + 1] = stamp
  local moments = with_moment(settled[5] or '', stamp)
  if moments then
    fields[#fields + 1] = 'h'
    fields[#fields + 1] = moments
  end
end
