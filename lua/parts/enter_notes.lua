-- include parts/calls.lua
-- include parts/notes.lua
-- Returns the oldest note, and its score.
local function first_note(index)
  return unpack(call('ZREVRANGEBYSCORE', index, '(0', '-inf', 'WITHSCORES', 'LIMIT', '0', '1'))
end

-- Enters notes in the index, from the oldest on, until so many names are entered: each name with the note's version. No
-- peer is told of a name in a note before that. A shard that was new, and that the index remembers from before, was
-- lost by other ways than a fail-over, and is another thing now: instead it gets a flag, until it has another dot
-- (lua/dots_settle.lua). Returns the version of the first note that is left.
local function enter_notes(registry, index, most)
  local note, score = first_note(index)
  local noted, entered = tonumber(call('HGET', registry, 'p') or '0') or 0, 0
  if not note and noted == 0 then return nil end
  call('ZREM', index, '') -- as in actors_reap: not to be stopped by lack of memory
  while note and entered < most do
    local kind, names = names_in(note)
    local stamp, version, GROUP = string.sub(score, 2), -tonumber(score), 1000
    for first = 1, #names, GROUP do
      local last, stamps = math.min(first + GROUP - 1, #names), {}
      local before = kind == 'm' and call('ZMSCORE', index, unpack(names, first, last)) or {}
      for i = first, last do
        local its = before[i - first + 1]
        local is_remade = its and tonumber(its) < version
        stamps[#stamps + 1] = is_remade and '0' or stamp
        stamps[#stamps + 1] = is_remade and flag_of(names[i]) or names[i]
      end
      call('ZADD', index, 'GT', unpack(stamps))
    end
    call('ZREM', index, note) -- last: where ZADD is denied, nothing is lost
    entered = entered + #names
    note, score = first_note(index)
  end
  call('HSET', registry, 'p', string.format('%.0f', note and math.max(noted - entered, 1) or 0))
  return note and tonumber(string.sub(score, 2))
end
