-- Sums of counts are exact: parts of 10 digits, the lowest first, of which a double holds 900,000.
local function add(sum, count, times)
  local part, digits = 1, string.sub(count, -10)
  repeat
    sum[part] = (sum[part] or 0) + times * tonumber(digits)
    part = part + 1
    digits = #count <= 10 * part - 10 and '' or string.sub(count, -10 * part, -10 * part + 9)
  until digits == ''
end

-- Returns the sum as a count; nothing if it is below zero.
local function written(sum)
  local part, carry, digits = 1, 0, ''
  while sum[part] or carry > 0 do
    local all = (sum[part] or 0) + carry
    carry = math.floor(all / 1e10)
    digits = string.format('%010.0f', all - carry * 1e10) .. digits
    part = part + 1
  end
  return carry == 0 and (string.match(digits, '^0*([1-9]%d*)$') or '0') or nil
end
