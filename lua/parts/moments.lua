-- include parts/calls.lua
-- When versions were: `VERSION:SECONDS ...`, the earliest first. Of those of one second the first is kept, and of all
-- of them MOMENTS: the further back, the fewer, but those at both ends of a pause. So it is known for how long a peer
-- has not heard of a version. Returns them with this version, or nothing if they have one of this second.
local MOMENTS = 16
local function with_moment(known, version)
  local seconds = call('TIME')[1]
  if string.match(known, ':(%d+)$') == seconds then return nil end
  local versions, times = {}, {}
  for each, at in string.gmatch(known, '(%d+):(%d+)') do
    versions[#versions + 1], times[#times + 1] = each, tonumber(at)
  end
  versions[#versions + 1], times[#times + 1] = version, tonumber(seconds)
  if #times > MOMENTS then
    local spared, least = 2, math.huge
    for i = 2, #times - 1 do
      local span = (times[i + 1] - times[i - 1]) / (times[#times] - times[i] + 1)
      if span < least then spared, least = i, span end
    end
    table.remove(versions, spared)
    table.remove(times, spared)
  end
  for i = 1, #times do versions[i] = versions[i] .. ':' .. string.format('%.0f', times[i]) end
  return table.concat(versions, ' ')
end

-- Keeps the moment of a version that is counted up alone.
local function keep_moment(registry, version)
  local moments = with_moment(call('HGET', registry, 'h') or '', version)
  if moments then call('HSET', registry, 'h', moments) end
end
