-- include parts/calls.lua
-- Returns the regions that this bucket has merged from, and whose index is not among these keys (from first to last).
local function unnamed(marks, index, first, last)
  local named, found = {}, {}
  for i = first, last do named[string.sub(KEYS[i], #index + 2)] = true end
  local fields = call('HKEYS', marks)
  for i = 1, #fields do
    local region = string.match(fields[i], '^<(.+)$')
    if region and not named[region] then found[#found + 1] = region end
  end
  return found
end
