-- Notes (see slots_merge) are entered, from the oldest on, until so many names are: each name with the note's version,
-- or a later one that it has already. Nobody is told of what a note names before that. Returns the version of the first
-- one that is left.
local function first_note(key)
  return unpack(call('ZREVRANGEBYSCORE', key, '(0', '-inf', 'WITHSCORES', 'LIMIT', '0', '1'))
end

local function enter_notes(key, most)
  local note, score = first_note(key)
  local noted, entered = tonumber(call('HGET', registry, 'p') or '0') or 0, 0
  if not note and noted == 0 then return nil end
  call('ZREM', key, '') -- as in actors_reap: not to be stopped by lack of memory
  while note and entered < most do
    local stamp, stamps, n = string.sub(score, 2), {}, 0
    for name in string.gmatch(note, '[^\n]+') do
      stamps[n + 1], stamps[n + 2] = stamp, name
      n = n + 2
    end
    for first = 1, n, 2000 do call('ZADD', key, 'GT', unpack(stamps, first, math.min(first + 1999, n))) end
    call('ZREM', key, note) -- last: where ZADD is denied, nothing is lost
    entered = entered + n / 2
    note, score = first_note(key)
  end
  call('HSET', registry, 'p', string.format('%.0f', note and math.max(noted - entered, 0) or 0))
  return note and tonumber(string.sub(score, 2))
end
