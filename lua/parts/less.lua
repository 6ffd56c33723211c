-- Counts are texts, and never become numbers: the longer one is more.
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end
