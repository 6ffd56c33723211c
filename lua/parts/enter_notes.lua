-- Notes (see slots_merge) are entered, from the oldest on, until so many names are: each name with the note's version,
-- or a later one that it has already. Nobody is told of what a note names before that. Returns the version of the first
-- one that is left. (What is taken out goes first: so it is not stopped by lack of memory.)
local function first_note(key)
  return unpack(call('ZREVRANGEBYSCORE', key, '(0', '-inf', 'WITHSCORES', 'LIMIT', '0', '1'))
end

local function enter_notes(key, most)
  local note, score = first_note(key)
  if not note then return nil end
  local entered = 0
  while note and entered < most do
    local stamp, stamps, n = string.sub(score, 2), {}, 0
    for name in string.gmatch(note, '[^\n]+') do
      stamps[n + 1], stamps[n + 2] = stamp, name
      n = n + 2
    end
    call('ZREM', key, note)
    for first = 1, n, 2000 do call('ZADD', key, 'GT', unpack(stamps, first, math.min(first + 1999, n))) end
    entered = entered + n / 2
    note, score = first_note(key)
  end
  local noted = tonumber(call('HGET', registry, 'p') or '0')
  call('HSET', registry, 'p', string.format('%.0f', note and math.max(noted - entered, 0) or 0))
  return note and tonumber(string.sub(score, 2))
end
