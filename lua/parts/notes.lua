-- What a note or a flag tells of, as lua/parts/stamp_all.lua and enter_notes write them: its kind, and names. Kinds: m,
-- shards that were new; c, changed ones; either in capitals, where it tells of one name, with a newline in it; r, a
-- flag: one that was made again.
local REMADE = '\nr\n'
local function names_in(note)
  local kind, from = string.match(note, '^\n(%a)%d*\n()')
  if kind ~= 'm' and kind ~= 'c' then return string.lower(kind or ''), {string.sub(note, from or 1)} end
  local names = {}
  for name in string.gmatch(string.sub(note, from), '[^\n]+') do names[#names + 1] = name end
  return kind, names
end
