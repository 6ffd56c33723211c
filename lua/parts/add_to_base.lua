-- include parts/calls.lua
local MOST_BASES = 16 -- fields that take what was folded, or counted by no actor: the next when one is full

-- Adds the amount, less the floor if there is one, to a base of the shard. Returns the field that took it, or nothing
-- and an error. A field that is full, or is no number, is left as it is; an absent one has room for any count.
local function add_to_base(key, sign, amount, floor)
  local field, err = sign, nil
  for further = 1, MOST_BASES do
    local lowered = floor and pcall('HINCRBY', key, field, '-' .. floor)
    if type(lowered) == 'table' then
      err = lowered.err
    else
      local sum = pcall('HINCRBY', key, field, amount)
      if type(sum) ~= 'table' then return field end
      err = sum.err
      if floor then call('HINCRBY', key, field, floor) end
    end
    field = further .. sign
  end
  return nil, err
end
