--[[
slots_merge: one actor's slots in many counters of a bucket are the maximum of what was there and what is sent.

KEYS   1 registry    hash
       2 index       sorted set   what was changed here; touched only where changes are stamped
       3.. shards    hash   one per item, in the order of the items; a counter with items of both signs is named twice
ARGV   1 actor              as slots are named after it
       2 seq                number of this flush
       3 base               the highest number the owner saw acknowledged
       4 exact              1: on top of that very flush or not at all; 0: on top of a later one of the owner's too
       5 fresh_plus         how many items of each kind follow, in this order
       6 fresh_minus        fresh: nothing of it is acknowledged yet       value: total
       7 known_plus
       8 known_minus        known: a part of it is acknowledged            value: total
       9 floored_plus
       10 floored_minus     floored: reported missing, or maybe new, in a shard > 0   values: total, acknowledged
       11 widened           widened: shard 0 of a counter, told its K; a narrowing is void      value: shards
       12 expiring          how many of these items are of counters that expire; nothing is written of one that has
       13.. values          of the items, in order; then, of each that expires: item (from 1), when (epoch milliseconds)
REPLY  OK seq [index error]...   applied; the items listed (from 1) were refused by Redis, each alone
       STALE seq                 nothing written: not above the recorded number, a late copy
       REGRESS seq               nothing written: not on top of `base`; acknowledged flushes were lost by a fail-over
       CLOSED seq                nothing written: the actor was closed
       UNKNOWN                   nothing written: no such actor, or its record is unreadable
       MISSING index...          nothing written: these known items have no slot, it was deleted
       SEALED [index id]...      nothing written: these known or floored items are of shards sealed with that id
ERROR  BADARG ...                nothing written
COST   O(items); up to 4 commands each, mostly 1 or 2; of one that expires up to 3 more;
       of a new shard, where changes are stamped, up to 2 more, but mostly none; where no peer has asked for
       changes for long, as many more names of earlier ones are entered in the index
]]
-- include parts/calls.lua
-- include parts/whole.lua
-- include parts/less.lua
-- include parts/changes.lua
-- include parts/give_dot.lua
-- include parts/stamp_all.lua
local KEYS, ARGV = KEYS, ARGV -- as locals: thousands of looks at globals are a twentieth of a flush
local registry, actor = KEYS[1], ARGV[1]
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
if not seq or not base or (exact ~= '0' and exact ~= '1') or #KEYS ~= items + 2 or #ARGV ~= values + 12 then
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

local settled = call('HMGET', registry, 'g', 'n', 'v', 'p', 'h', actor)
local index, record = KEYS[2], settled[6]
local state, recorded, rest = string.match(record or '', '^(%a) (%d+) %d+ (.*)$')
if not state then return {'UNKNOWN'} end
recorded = tonumber(recorded)
if state ~= 'o' then return {'CLOSED', recorded} end
if recorded < base or (exact == '1' and recorded ~= base) then return {'REGRESS', recorded} end
if seq <= recorded then return {'STALE', recorded} end

local plus, minus = actor .. '+', actor .. '-'
local reply = {'OK', seq}

-- Of a counter that has expired nothing is written: a late flush must not make it anew. One that is there, and is to
-- expire later, has not: a later time was sent.
local time = call('TIME')
local now, expired = time[1], {}
local now_ms = tonumber(now) * 1000 + math.floor(tonumber(time[2]) / 1000)
for i, at in pairs(expiries) do
  expired[i] = tonumber(at) <= now_ms and call('PTTL', KEYS[i + 2]) <= 0 or nil
end

-- Known items are read before anything is written: a missing slot must refuse the whole flush, so that the recorded
-- number never stands for a total that is not there.
local first_known = counts[1] + counts[2] + 1
local last_known = first_known + counts[3] + counts[4] - 1
local olds, missing, sealed = {}, nil, nil

-- A shard whose counter was given fewer is a text: to count in it, a client first publishes in shard 0 (shard_unseal).
local function look(i, err)
  if not string.find(err, '^WRONGTYPE') then return end
  local found = pcall('GET', KEYS[i + 2])
  local id = type(found) == 'string' and string.match(found, '^sealed (%S+) ')
  if id then
    sealed = sealed or {'SEALED'}
    sealed[#sealed + 1] = i
    sealed[#sealed + 1] = id
  end
end

local field, turn = plus, first_known + counts[3]
for i = first_known, last_known do
  if i == turn then field = minus end
  if not expired[i] then
    local old = pcall('HGET', KEYS[i + 2], field)
    if not old then
      missing = missing or {'MISSING'}
      missing[#missing + 1] = i
    else
      olds[i] = old
      if type(old) == 'table' then look(i, old.err) end
    end
  end
end
for i = last_known + 1, last_known + counts[5] + counts[6] do
  local there = pcall('HGET', KEYS[i + 2], plus)
  if type(there) == 'table' then look(i, there.err) end
end
if missing or sealed then return missing or sealed end

-- Whatever can fail here does so before the first write.
local changes = new_changes(registry, index, settled, counts[1] + counts[2])
local stamp, changed, created, first_dot = changes.stamp, changes.changed, changes.created, changes.first_dot

-- Redis refuses for lack of memory only before a script's first write, and PEXPIREAT needs none.
if next(expiries) then call('HSET', registry, actor, record) end

-- A key that is there is to expire then, or when it does already if that is later; one that is not is told once it is
-- made. (It is told now too, in vain: a user who may not must learn that before the first write.)
for i, at in pairs(expiries) do
  local key = KEYS[i + 2]
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

-- A shard without a slot of ours is mostly a new one, or mostly not: asking for a group of them costs one command, and
-- spares every member of a group that is all new, or all there, its second one.
local GROUP, fresh_plus, sub, from = 250, counts[1], string.sub, #registry + 2
for first = 1, first_known - 1, GROUP do
  local last = math.min(first + GROUP, first_known) - 1
  local there = call('EXISTS', unpack(KEYS, first + 2, last + 2))
  local all_new, all_there = there == 0 and not next(expired), there > last - first
  -- The dot of all of them, or each has its own.
  local its = all_new and (not stamp and changes.dot or not changes.looks_up and first_dot)
  if its == first_dot then
    for i = first + 2, last + 2 do created[#created + 1] = sub(KEYS[i], from) end
  elseif its then
    changes.dot_used = true
  end
  for i = first, last do
    local key, total = KEYS[i + 2], ARGV[i + 12]
    field = i > fresh_plus and minus or plus
    if all_new then
      call('HSET', key, field, total, 'd', its or dot_of(changes, key))
      if not its then has_changed(changes, key) end
    elseif not expired[i] then
      local new = pcall('HSETNX', key, field, total)
      if new == 1 then
        if not all_there then give_dot(changes, key) end
        has_changed(changes, key)
      elseif new == 0 then
        if less(call('HGET', key, field), total) then
          call('HSET', key, field, total)
          has_changed(changes, key)
        end
      else
        refuse(i, new)
      end
    end
  end
end
field = plus
local news = #changed
for i = first_known, last_known do
  if i == turn then field = minus end
  local old, total = olds[i], ARGV[i + 12]
  if type(old) == 'table' then
    refuse(i, old)
  elseif old and less(old, total) then
    local key = KEYS[i + 2]
    call('HSET', key, field, total)
    if stamp then
      news = news + 1
      changed[news] = sub(key, from)
    end
  end
end
local v = last_known + 13
field = plus
local floored = last_known + counts[5] + counts[6]
for i = last_known + 1, floored do
  if i > last_known + counts[5] then field = minus end
  local key, total = KEYS[i + 2], ARGV[v]
  local new = not expired[i] and pcall('HSETNX', key, field, total)
  if new == 1 then
    if ARGV[v + 1] ~= '0' then call('HSET', key, '~' .. field, ARGV[v + 1]) end
    give_dot(changes, key)
    has_changed(changes, key)
  elseif new == 0 then
    if less(call('HGET', key, field), total) then
      call('HSET', key, field, total)
      has_changed(changes, key)
    end
  elseif new then
    refuse(i, new)
  end
  v = v + 2
end
for i = floored + 1, items do
  local key, shards = KEYS[i + 2], ARGV[v]
  local there = not expired[i] and pcall('HMGET', key, 'k', 'z')
  if there and there.err then
    refuse(i, there)
  elseif there then
    local told = there[1] or '1'
    if less(told, shards) then told = shards end
    if (there[2] or '-') ~= '-' then
      call('HSET', key, 'k', told, 'z', '-')
    elseif told ~= there[1] then
      call('HSET', key, 'k', told)
    end
    if not there[1] then give_dot(changes, key) end
    if told ~= there[1] then has_changed(changes, key) end
  end
  v = v + 1
end
for i, at in pairs(expiries) do
  call('PEXPIREAT', KEYS[i + 2], at)
end

record = 'o ' .. string.format('%.0f', seq) .. ' ' .. now .. ' ' .. rest
local fields = {actor, record}
if changes.dot_used then
  fields[3], fields[4] = 'n', changes.highest
end
stamp_all(changes, fields)
call('HSET', registry, unpack(fields))
return reply
