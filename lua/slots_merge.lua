--[[
slots_merge: one actor's slots in many counters of a bucket are the maximum of what was there and what is told.

KEYS   1 registry    hash
       2.. shards    hash   one per item, in the order of the items; a counter with items of both signs is named twice
ARGV   1 actor              as slots are named after it
       2 seq                number of this flush
       3 base               the highest number the owner saw acknowledged
       4 exact              1: on top of that very flush or not at all; 0: on top of a later one of the owner's too
       5 fresh_plus         how many items of each kind follow, in this order
       6 fresh_minus        fresh: nothing of it is acknowledged yet       value: total
       7 known_plus
       8 known_minus        known: a part of it is acknowledged            value: total
       9 floored_plus
       10 floored_minus     floored: its slot was reported missing         values: total, acknowledged
       11 widened           widened: shard 0 of a counter, told its K      value: shards
       12 expiring          how many of these items are of counters that expire; nothing is written of one that has
       13.. values          of the items, in order; then, of each that expires: item (from 1), when (epoch milliseconds)
REPLY  OK seq [index error]...   applied; the items listed (from 1) were refused by Redis, each alone
       STALE seq                 nothing written: not above the recorded number, a late copy
       REGRESS seq               nothing written: not on top of `base`; acknowledged flushes were lost by a fail-over
       CLOSED seq                nothing written: the actor was closed
       UNKNOWN                   nothing written: no such actor, or its record is unreadable
       MISSING index...          nothing written: these known items have no slot, somebody deleted it
ERROR  BADARG ...                nothing written
COST   O(items); up to 3 commands each, mostly 1 or 2; of one that expires up to 3 more
]]
local registry, actor = KEYS[1], ARGV[1]
local function whole(text)
  return string.find(text, '^%d+$') and tonumber(text)
end
local seq, base, exact = whole(ARGV[2]), whole(ARGV[3]), ARGV[4]
local counts, items, values = {}, 0, 0
for kind = 1, 8 do
  local count = whole(ARGV[4 + kind] or '')
  if not count then return redis.error_reply('BADARG slots_merge: count ' .. kind .. ' is no number') end
  counts[kind] = count
  values = values + count
end
items = values - counts[8]
local first_expiry = items + counts[5] + counts[6] + 13
values = values + counts[5] + counts[6] + counts[8]
if not seq or not base or (exact ~= '0' and exact ~= '1') or #KEYS ~= items + 1 or #ARGV ~= values + 12 then
  return redis.error_reply('BADARG slots_merge: ' .. #KEYS .. ' keys, ' .. #ARGV .. ' arguments do not fit the counts')
end

local expiries = {} -- by item
for v = first_expiry, #ARGV, 2 do
  local item = whole(ARGV[v])
  if not item or not whole(ARGV[v + 1]) or item < 1 or item > items then
    return redis.error_reply('BADARG slots_merge: no item and its expiry: ' .. ARGV[v] .. ' ' .. ARGV[v + 1])
  end
  expiries[item] = ARGV[v + 1]
end

local record = redis.call('HGET', registry, actor)
local state, recorded, rest = string.match(record or '', '^(%a) (%d+) %d+ (.*)$')
if not state then return {'UNKNOWN'} end
recorded = tonumber(recorded)
if state ~= 'o' then return {'CLOSED', recorded} end
if recorded < base or (exact == '1' and recorded ~= base) then return {'REGRESS', recorded} end
if seq <= recorded then return {'STALE', recorded} end

local call, pcall = redis.call, redis.pcall
local plus, minus = actor .. '+', actor .. '-'
local reply = {'OK', seq}

-- Of a counter that has expired nothing is written: a late flush must not make it anew. One that is there, and is to
-- expire later, has not: somebody has told a later time.
local time = call('TIME')
local now, expired = time[1], {}
local now_ms = tonumber(now) * 1000 + math.floor(tonumber(time[2]) / 1000)
for i, at in pairs(expiries) do
  expired[i] = tonumber(at) <= now_ms and call('PTTL', KEYS[i + 1]) <= 0 or nil
end

-- Known items are read before anything is written: a missing slot must refuse the whole flush, so that the recorded
-- number never stands for a total that is not there.
local first_known = counts[1] + counts[2] + 1
local last_known = first_known + counts[3] + counts[4] - 1
local olds, missing = {}, nil
local field, turn = plus, first_known + counts[3]
for i = first_known, last_known do
  if i == turn then field = minus end
  if not expired[i] then
    local old = pcall('HGET', KEYS[i + 1], field)
    if not old then
      missing = missing or {'MISSING'}
      missing[#missing + 1] = i
    else
      olds[i] = old
    end
  end
end
if missing then return missing end

-- Whatever can fail here does so before the first write.
local issued = tonumber(call('HGET', registry, 'n')) + 1
local dot, dot_used = call('HGET', registry, 'g') .. '.' .. string.format('%.0f', issued), 0

-- Redis refuses for lack of memory only before a script's first write, and PEXPIREAT needs none.
if next(expiries) then call('HSET', registry, actor, record) end

-- A key that is there is to expire then, or when it does already if that is later; one that is not is told once it is
-- made. (It is told now too, in vain: a user who may not must learn that before the first write.)
for i, at in pairs(expiries) do
  local key = KEYS[i + 1]
  local kind = call('TYPE', key).ok -- of another one than these it is no counter, and is refused below
  if not expired[i] and (kind == 'hash' or kind == 'none') then
    local left = call('PTTL', key)
    if left < 0 or now_ms + left < tonumber(at) then call('PEXPIREAT', key, at) end
  end
  if expired[i] or kind ~= 'none' then expiries[i] = nil end
end

local function refuse(i, err)
  expiries[i] = nil
  reply[#reply + 1] = i
  reply[#reply + 1] = err.err or err
end

local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end

-- A shard without a slot of ours is mostly a new one, or mostly not: asking for a group of them costs one command, and
-- spares every member of a group that is all new, or all there, its second one.
local GROUP = 250
for first = 1, first_known - 1, GROUP do
  local last = math.min(first + GROUP, first_known) - 1
  local there = call('EXISTS', unpack(KEYS, first + 1, last + 1))
  local all_new, all_there = there == 0 and not next(expired), there > last - first
  for i = first, last do
    local key, total = KEYS[i + 1], ARGV[i + 12]
    field = i > counts[1] and minus or plus
    if all_new then
      call('HSET', key, field, total, 'd', dot)
      dot_used = 1
    elseif not expired[i] then
      local new = pcall('HSETNX', key, field, total)
      if new == 1 then
        if not all_there then dot_used = dot_used + call('HSETNX', key, 'd', dot) end
      elseif new == 0 then
        if less(call('HGET', key, field), total) then call('HSET', key, field, total) end
      else
        refuse(i, new)
      end
    end
  end
end
field = plus
for i = first_known, last_known do
  if i == turn then field = minus end
  local old, total = olds[i], ARGV[i + 12]
  if type(old) == 'table' then
    refuse(i, old)
  elseif old and less(old, total) then
    call('HSET', KEYS[i + 1], field, total)
  end
end
local v = last_known + 13
field = plus
local floored = last_known + counts[5] + counts[6]
for i = last_known + 1, floored do
  if i > last_known + counts[5] then field = minus end
  local key, total = KEYS[i + 1], ARGV[v]
  local new = not expired[i] and pcall('HSETNX', key, field, total)
  if new == 1 then
    call('HSET', key, '~' .. field, ARGV[v + 1])
    dot_used = dot_used + call('HSETNX', key, 'd', dot)
  elseif new == 0 then
    if less(call('HGET', key, field), total) then call('HSET', key, field, total) end
  elseif new then
    refuse(i, new)
  end
  v = v + 2
end
for i = floored + 1, items do
  local key, shards = KEYS[i + 1], ARGV[v]
  local new = not expired[i] and pcall('HSETNX', key, 'k', shards)
  if new == 1 then
    dot_used = dot_used + call('HSETNX', key, 'd', dot)
  elseif new == 0 then
    if less(call('HGET', key, 'k'), shards) then call('HSET', key, 'k', shards) end
  elseif new then
    refuse(i, new)
  end
  v = v + 1
end
for i, at in pairs(expiries) do
  call('PEXPIREAT', KEYS[i + 1], at)
end

record = 'o ' .. string.format('%.0f', seq) .. ' ' .. now .. ' ' .. rest
if dot_used > 0 then
  call('HSET', registry, actor, record, 'n', string.format('%.0f', issued))
else
  call('HSET', registry, actor, record)
end
return reply
