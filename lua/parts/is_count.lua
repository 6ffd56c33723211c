-- As counts are written; where sums of many are kept, there is no highest.
local function is_count(text)
  return text == '0' or string.find(text, '^[1-9]%d*$')
end
