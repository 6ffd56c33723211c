--[[
entries_merge: these shards hold what another region told of them, where that is more; and the mark that says so.

KEYS   1 registry    hash
       2 marks       hash
       3 index       sorted set   what was changed here: gets those of which this region had counted more than it has
       4 merged      sorted set   what was merged from this source: gets the other shards that have changed now
       5.. shards    hash         one per text
ARGV   1 source      the region that tells
       2 since       the mark that we held when it was asked for these texts; "-": none
       3 mark        what we hold of it from now on; empty: what we did, this is a repair
       4 region      name of this one
       5.. texts     of each shard, as entries_read gives it; of an empty one nothing is told
REPLY  OK version changed [index error]...   merged; the version of this bucket, and how many shards have changed;
                                             those listed (from 1) were refused by Redis, each alone; or an entry
                                             that holds what is no count, and all others of the shard are merged
       OTHER mark                            nothing written: the mark that we hold is this, not `since`; "-": none
       UNJOINED                              nothing written: changes are not stamped here
ERROR  BADARG ...                            nothing written
COST   O(shards); up to 4 commands each; and one for notes, of which all names are read; where one is made, what
       notes_enter takes for all that is noted
]]
-- include parts/calls.lua
-- include parts/less.lua
-- include parts/is_count.lua
-- include parts/sums.lua
-- include parts/changes.lua
-- include parts/unknown.lua
-- include parts/enter_notes.lua
-- include parts/moments.lua
-- include parts/stamp_all.lua
local registry = KEYS[1]
local byte, find, match, sub = string.byte, string.find, string.match, string.sub
local source, since, mark, region = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if #ARGV ~= #KEYS or source == '' or since == '' or region == '' then
  return redis.error_reply('BADARG entries_merge: ' .. #KEYS .. ' keys, ' .. #ARGV .. ' arguments do not fit')
end

-- What a text tells: the fields that are not 0, by name and count. Nothing if it is no such text.
local ENTRY = '() ([%w._-]+/[%w.]+),(%d+),?(%d*),?(%d*),?(%d*)()'
local home = region .. '/'
local function parse(text)
  local shards, expiry, from = match(text, '^(%d+) (%d+)()')
  if not shards or not is_count(shards) then return nil end
  local names, counts, own, n = {}, {}, false, 0
  for start, place, p, m, fp, fm, past in string.gmatch(text, ENTRY) do
    if start ~= from then return nil end
    from = past
    if sub(place, 1, #home) == home then place, own = sub(place, #home), true end
    if p ~= '0' then n, names[n + 1], counts[n + 1] = n + 1, '@' .. place .. '+', p end
    if m ~= '0' and m ~= '' then n, names[n + 1], counts[n + 1] = n + 1, '@' .. place .. '-', m end
    if fp ~= '0' and fp ~= '' then n, names[n + 1], counts[n + 1] = n + 1, '~@' .. place .. '+', fp end
    if fm ~= '0' and fm ~= '' then n, names[n + 1], counts[n + 1] = n + 1, '~@' .. place .. '-', fm end
  end
  if from ~= #text + 1 then return nil end
  for i = 1, n do
    if byte(counts[i]) == 48 then return nil end
  end
  return {shards = shards, expiry = tonumber(expiry), own = own, names = names, counts = counts}
end

-- Most texts tell of one count, of another region: of these its field and it.
local all_told, single, count_of = {}, {}, {}
for i = 5, #ARGV do
  local text = ARGV[i]
  local place, plus = match(text, '^0 0 ([%w._-]+/[%w.]+),([1-9]%d*)$')
  if place and sub(place, 1, #home) ~= home then
    single[i], count_of[i] = '@' .. place .. '+', plus
  else
    all_told[i] = text ~= '' and parse(text)
    if all_told[i] == nil then return redis.error_reply('BADARG entries_merge: text ' .. (i - 4) .. ' is none') end
  end
end

local settled = call('HMGET', registry, 'g', 'n', 'v', 'p', 'h')
if not settled[3] then return {'UNJOINED'} end
local held = call('HGET', KEYS[2], '<' .. source) or '-'
if held ~= since then return {'OTHER', held} end
local index, known = KEYS[3], {} -- (`known`: of is_unknown)
local changes = new_changes(registry, index, settled)
local stamp, changed = changes.stamp, changes.changed

call('ZADD', KEYS[4], 'XX', '0', '')
call('ZRANGEBYSCORE', index, '1', '0')
local others = {} -- names, beside `changed`

local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- Returns the dot, k, and then, of each field that is told of, what is there. Of the own live dot that is what is
-- counted, if it is more.
local function look(key, told)
  local names = told.names
  if not told.own and #names < 1000 then
    local found = pcall('HMGET', key, 'd', 'k', unpack(names))
    return not found.err and found, found.err
  end
  local fields, there, live, wrong = pcall('HGETALL', key), {}, {['+'] = {0}, ['-'] = {0}}, nil
  if fields.err then return nil, fields.err end
  for n = 1, #fields, 2 do
    local field, count = fields[n], fields[n + 1]
    local sign = match(field, '^[^@]*([+-])$')
    if sign and is_count(count) then
      add(live[sign], count, byte(field) == 126 and -1 or 1)
    elseif sign then
      wrong = wrong or 'ERR ' .. field .. ' is no count'
    end
    there[field] = count
  end
  -- (Where it is not known whether that dot is of what is counted here, only what was told of it counts.)
  for sign, sum in pairs(is_unknown(known, index, key, there['d'] or '') and {} or live) do
    local field, total = '@/' .. (there['d'] or '') .. sign, written(sum)
    if wrong then there[field] = '' end -- it is not known how much that is: refused below
    if total and not wrong and less(there[field] or '0', total) then there[field] = total end
  end
  local found = {there['d'] or false, there['k'] or false}
  for n = 1, #names do found[n + 2] = there[names[n]] or false end
  return found
end

-- Returns what is more than there is, fields and counts, and where the shard's name is to be put then; and an error, if
-- a field holds what is no count: then all of that entry is left out.
local function more_of(told, there)
  local grown, where, spoilt, err = {}, others, nil, nil
  for n = 1, #told.names do
    local old, field = there[n + 2], told.names[n]
    if old and old ~= told.counts[n] and not is_count(old) then
      spoilt, err = spoilt or {}, err or 'ERR ' .. field .. ' is no count'
      spoilt[match(field, '@(.*).$')] = true
    end
  end
  for n = 1, #told.names do
    local field, count = told.names[n], told.counts[n]
    local old = there[n + 2] or '0'
    if old ~= count and not (spoilt and spoilt[match(field, '@(.*).$')]) and less(old, count) then
      grown[#grown + 1] = field
      grown[#grown + 1] = count
      if byte(field, 2) == 47 then where = changed end
    end
  end
  return grown, where, err
end

-- Returns where its name is to be put, if there was more in it than is there, or nothing; and an error. What was
-- counted here, and lost, is stamped as if it were counted again: so its name is known to have been.
local function merge(key, told)
  local there, err = look(key, told)
  if err then return nil, err end
  local grown, where
  grown, where, err = more_of(told, there)
  if less(there[2] or '1', told.shards) then
    grown[#grown + 1] = 'k'
    grown[#grown + 1] = told.shards
  end
  local left = -1 -- milliseconds; none
  if told.expiry > 0 and there[1] then left = call('PTTL', key) end
  if #grown > 0 and not there[1] then
    if changes.noted > 0 then -- a peer may know what is only noted all the same: from another region's change
      enter_notes(registry, index, math.huge)
      changes.noted, changes.looks_up = 0, true
    end
    grown[#grown + 1] = 'd'
    grown[#grown + 1] = dot_of(changes, key)
  end
  for first = 1, #grown, 2000 do call('HSET', key, unpack(grown, first, math.min(first + 1999, #grown))) end
  if told.expiry > 0 and (there[1] or #grown > 0) and (left < 0 or now + left < told.expiry) then
    call('PEXPIREAT', key, string.format('%.0f', told.expiry))
    -- (Before Redis 7.0 what is told of a time may be some milliseconds early: that is no news.)
    if left < 0 or now + left + 1000 < told.expiry then return where, err end
  end
  return #grown > 0 and where or nil, err
end

-- The same for a text that tells of one count.
local function merge_single(key, field, count)
  local there = pcall('HMGET', key, 'd', field)
  if there.err then return nil, there.err end
  if not there[1] then return merge(key, {shards = '0', expiry = 0, own = false, names = {field}, counts = {count}}) end
  local old = there[2] or '0'
  if not is_count(old) then return nil, 'ERR ' .. field .. ' is no count' end
  if not less(old, count) then return nil end
  call('HSET', key, field, count)
  return others
end

local reply = {'OK', '', 0}
for i = 5, #KEYS do
  local key, told = KEYS[i], all_told[i]
  -- Nothing is written of a counter that has expired, as in slots_merge.
  if single[i] or (told and not (told.expiry > 0 and told.expiry <= now and call('PTTL', key) <= 0)) then
    local where, err
    if single[i] then
      where, err = merge_single(key, single[i], count_of[i])
    else
      where, err = merge(key, told)
    end
    if err then
      reply[#reply + 1] = i - 4
      reply[#reply + 1] = err
    end
    if where then
      where[#where + 1] = sub(key, #registry + 2)
      reply[3] = reply[3] + 1
    end
  end
end
for first = 1, #others, 1000 do
  local stamps = {}
  for i = first, math.min(first + 999, #others) do
    stamps[#stamps + 1] = stamp
    stamps[#stamps + 1] = others[i]
  end
  call('ZADD', KEYS[4], unpack(stamps))
end
if reply[3] > 0 then
  local fields = {'v', stamp, 'n', changes.dot_used and changes.highest or settled[2]}
  stamp_all(changes, fields)
  local moments = #fields == 4 and with_moment(settled[5] or '', stamp)
  if moments then fields[5], fields[6] = 'h', moments end
  call('HSET', registry, unpack(fields))
end
if mark ~= '' then call('HSET', KEYS[2], '<' .. source, mark, 't:' .. source, string.format('%.0f', now)) end
reply[2] = reply[3] > 0 and stamp or settled[3]
return reply
