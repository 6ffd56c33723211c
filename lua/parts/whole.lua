-- Returns the number that an argument is; nothing if it is none of digits.
local function whole(text)
  return string.find(text, '^%d+$') and tonumber(text)
end
