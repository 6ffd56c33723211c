-- Returns a flag: the member of the index that marks the shard of this name as lost here and made again.
local function flag_of(name)
  return '\nr\n' .. name
end

-- Returns the kind of a note or a flag, as stamp_all and enter_notes write them, and its names. Kinds: m, shards that
-- were new; c, changed ones; either in capitals, where it has one name, with a newline in it; r, a flag.
local function names_in(note)
  local kind, from = string.match(note, '^\n(%a)%d*\n()')
  if kind ~= 'm' and kind ~= 'c' then return string.lower(kind or ''), {string.sub(note, from or 1)} end
  local names = {}
  for name in string.gmatch(string.sub(note, from), '[^\n]+') do names[#names + 1] = name end
  return kind, names
end
