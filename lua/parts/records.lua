-- include parts/calls.lua
-- A record of a key lies in the hash of the slice of time that it was written in; a slice expires as a whole, when the
-- last of its records has come to its ttl. Field: a digest. Value: a text, a blank, and the milliseconds between the
-- beginning of the slice and the record. Record and effect are one step, and the server's clock alone decides.
local UNREADABLE = 'ERR the record of this key is unreadable'

-- Returns the four slices that stand in KEYS from `first` on: after, now, before, earlier. `number`: of the slice of
-- now. A record must not fail once its effect is there: if this user may not write it, the server says so here.
local function open_slices(first, length, number, ttl, now)
  local expiry = string.format('%.0f', (number + 1) * length + ttl)
  local dated, there = call('PEXPIREAT', KEYS[first + 1], expiry) == 1, {}
  for i = 0, 3 do there[i] = call('EXISTS', KEYS[first + i]) == 1 end
  return {
    first = first, length = length, number = number, ttl = ttl, now = now, there = there,
    expiry = expiry, dated = dated, offset = string.format('%.0f', now - number * length),
  }
end

-- Returns the text of the youngest record that is younger than the ttl, nothing, which slice it is in, and its
-- milliseconds; or nothing; or nothing and an error.
local function find_record(slices, digest)
  local there, first = slices.there, slices.first
  for i = 0, 3 do
    if there[i] then
      local record = pcall('HGET', KEYS[first + i], digest)
      if type(record) == 'table' then return nil, record.err end
      if record then
        local text, after = string.match(record, '^(.+) (%d+)$')
        if not text then return nil, UNREADABLE end
        local written = (slices.number + 1 - i) * slices.length + tonumber(after)
        if slices.now - written < slices.ttl then return text, nil, i, after end
      end
    end
  end
  return nil
end

-- The record is in the slice of now.
local function write_record(slices, digest, text)
  call('HSET', KEYS[slices.first + 1], digest, text .. ' ' .. slices.offset)
  slices.there[1] = true
end

-- A slice that got its first record expires too.
local function date_slices(slices)
  if not slices.dated and slices.there[1] then call('PEXPIREAT', KEYS[slices.first + 1], slices.expiry) end
end
