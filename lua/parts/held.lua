-- include parts/calls.lua
-- include parts/less.lua
-- include parts/is_count.lua
-- include parts/sums.lua
local byte, find, sub, format = string.byte, string.find, string.sub, string.format
local PLUS, MINUS, TILDE, AT, SLASH = byte('+-~@/', 1, 5)

-- Reads a shard's fields for other regions. Returns k, the name of this region's own entry, its totals by sign, and
-- entries by name, if there are any: P, N, and the floors of both; what was told of the own one is among them; and what
-- is wrong with an entry, which is left out then: of the own one, what is counted here. Nothing if there is no such
-- key, or it is sealed; or nothing and an error. Most shards hold short counts, which are added as numbers.
local function held(region, key, fields)
  if fields.err then
    local found = pcall('GET', key)
    if type(found) == 'string' and find(found, '^sealed ') then return nil end
    return nil, fields.err
  end
  if #fields == 0 then return nil end
  local shards, dot, plus, minus, long, entries = '0', nil, 0, 0, nil, nil
  local wrong, spoilt, own_spoilt -- the first; names of entries; whether the own one is
  for i = 1, #fields, 2 do
    local field, count = fields[i], fields[i + 1]
    local sign = byte(field, -1)
    if sign == PLUS or sign == MINUS then
      local first = byte(field)
      local from = first == AT and 2 or first == TILDE and byte(field, 2) == AT and 3
      if from then
        local name = sub(field, from, -2)
        if byte(name) == SLASH then name = region .. name end
        local entry = entries and entries[name]
        if not entry and find(name, '/', 1, true) then -- (else it is left for later versions)
          if not find(name, '^[%w._-]+/[%w.]+$') then
            wrong, spoilt = wrong or 'ERR ' .. field .. ' names no entry', spoilt or {}
            spoilt[#spoilt + 1] = name
          end
          entries, entry = entries or {}, {'0', '0', '0', '0'}
          entries[name] = entry
        end
        if entry and not is_count(count) then
          wrong, spoilt = wrong or 'ERR ' .. field .. ' is no count', spoilt or {}
          spoilt[#spoilt + 1] = name
        elseif entry then
          entry[(sign == PLUS and 1 or 2) + from * 2 - 4] = count
        end
      else
        local number = #count <= 10 and tonumber(count)
        if number and number >= 0 and number < 1e10 and number % 1 == 0 then
          if first == TILDE then number = -number end
          if sign == PLUS then plus = plus + number else minus = minus + number end
        elseif is_count(count) then
          long = long or {[PLUS] = {0}, [MINUS] = {0}}
          add(long[sign], count, first == TILDE and -1 or 1)
        else
          wrong, own_spoilt = wrong or 'ERR ' .. field .. ' is no count', true
        end
      end
    elseif field == 'd' then
      dot = count
    elseif field == 'k' and count ~= '1' then
      if is_count(count) then shards = count else wrong = wrong or 'ERR k is no number' end
    end
  end
  if not dot then return nil, 'ERR it has no dot' end
  if long then
    long[PLUS][1], long[MINUS][1] = long[PLUS][1] + plus, long[MINUS][1] + minus
    plus, minus = written(long[PLUS]), written(long[MINUS])
  else
    plus = plus > 0 and format('%.0f', plus) or plus == 0 and '0'
    minus = minus > 0 and format('%.0f', minus) or minus == 0 and '0'
  end
  if not plus or not minus then wrong, own_spoilt = wrong or 'ERR its floors are above its slots', true end
  if not find(dot, '^[%w.]+$') then return nil, 'ERR it has no dot' end
  local own = region .. '/' .. dot
  for i = 1, spoilt and #spoilt or 0 do
    entries[spoilt[i]] = nil
    own_spoilt = own_spoilt or spoilt[i] == own
  end
  if own_spoilt then plus, minus = '0', '0' end
  return shards, own, plus, minus, entries, wrong
end

-- Puts the own entry among the others: what is told of it counts if it is more.
local function add_own(entries, name, plus, minus)
  local entry = entries[name] or {'0', '0', '0', '0'}
  if less(entry[1], plus) then entry[1] = plus end
  if less(entry[2], minus) then entry[2] = minus end
  entries[name] = entry
end
