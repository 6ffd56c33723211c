-- Returns the field of the base that took it, or an error. One that is full, or is no number, is passed over.
local function add_to_base(key, sign, amount)
  local field, err = sign, nil
  for further = 1, MOST_BASES do
    local sum = pcall('HINCRBY', key, field, amount)
    if type(sum) ~= 'table' then return field end
    err = sum.err
    field = further .. sign
  end
  return nil, err
end
