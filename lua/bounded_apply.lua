--[[
bounded_apply: each amount is added to its counter, or spent, if room or rights suffice; or a spend is given back.

A counter is one hash. f, c: floor and cap, recorded by the first call that changes it. a: with a floor, the rights that
may be spent here now. h: with a cap, the room that may be added to here now. + and -: what was ever added here, and
spent; both only grow. With a floor an add makes rights, with a cap a spend makes room; giving back is adding.

Verb: "+" add, "-" spend, "r" give back. Digest: of counter and key. Amount: of "r" an id instead. Floor and cap: empty
if none. Room: the cap less the value at the start, empty without a cap. Brief: "b" for a record that is soon over, else
empty. A record (parts/records.lua) holds sign and amount, and what became of it: 1 done, 0 refused, r and an id given
back by that call, x given back before it was used. Counter and record are changed in one step.

KEYS   1 registry        hash
       2 index           sorted set   only looked at, where changes are stamped
       3 after           hash   slices of records: that after now, for there may have been a clock ahead
       4 slice           hash   the slice of now, which gets the records
       5 before          hash   the slice before
       6 earlier         hash   and the one before that
       7 brief_after     hash   the same of records that are soon over: of calls without a key of the caller's
       8 brief_slice     hash
       9 brief_before    hash
       10 brief_earlier  hash
       11.. counters     hash   one per item; a counter with many items is named as often
ARGV   1 generation      where the registry has none yet; empty: answer UNKNOWN then
       2 length          of a slice, milliseconds; at least half of the ttl
       3 number          of the slice of now: the time divided by the length
       4 ttl             milliseconds
       5 brief_length    the same of the records that are soon over
       6 brief_number
       7 brief_ttl
       8.. values        of each item: verb, digest, amount, floor, cap, room, brief
REPLY  OK now [answer]...   the server's time in milliseconds, and of each item: 1 done, now or by this key before;
                            0 and what there is of rights, or room: too little, nothing is changed; 0 alone: nothing to
                            give back; "=" and its record, if the key was used for something else; "#" and the floor and
                            cap that are recorded, if others; "!" and an error, if this item is refused, alone
       SLICE now            nothing written: this is another slice's time
       UNKNOWN              nothing written: there is no registry
ERROR  BADARG ...           nothing written
COST   O(items); up to 12 commands each
]]
-- include parts/calls.lua
-- include parts/whole.lua
-- include parts/less.lua
-- include parts/is_count.lua
-- include parts/records.lua
-- include parts/open_changes.lua
local LEADING, EACH = 7, 7
local items = #KEYS - 10
if items < 0 or #ARGV ~= LEADING + EACH * items then
  return redis.error_reply('BADARG bounded_apply: ' .. #KEYS .. ' keys, ' .. #ARGV .. ' arguments do not fit')
end
local length, number, ttl = whole(ARGV[2]), whole(ARGV[3]), whole(ARGV[4])
local brief_length, brief_number, brief_ttl = whole(ARGV[5]), whole(ARGV[6]), whole(ARGV[7])
if not length or not number or not ttl or length < 1 or ttl < 1 or ttl > 2 * length
  or not brief_length or not brief_number or not brief_ttl
  or brief_length < 1 or brief_ttl < 1 or brief_ttl > 2 * brief_length then
  return redis.error_reply('BADARG bounded_apply: lengths, numbers and ttls are no numbers, or do not go together')
end
local any, any_brief = false, false -- records
for v = LEADING + 1, #ARGV, EACH do
  local verb, amount, floor, cap, room, brief = ARGV[v], ARGV[v + 2], ARGV[v + 3], ARGV[v + 4], ARGV[v + 5], ARGV[v + 6]
  local counts = verb ~= 'r'
  if (counts and verb ~= '+' and verb ~= '-')
    or not string.find(amount, counts and '^[1-9]%d*$' or '^%w+$')
    or not string.find(floor, '^%-?%d*$') or not string.find(cap, '^%-?%d*$') or floor .. cap == ''
    or (room == '') ~= (cap == '') or (room ~= '' and not is_count(room))
    or (brief ~= '' and brief ~= 'b') then
    return redis.error_reply('BADARG bounded_apply: what is asked of item ' .. (v - 1) / EACH .. ' makes no sense')
  end
  if brief == '' then any = true else any_brief = true end
end

local time = call('TIME')
local now = 1000 * tonumber(time[1]) + math.floor(tonumber(time[2]) / 1000)
local now_told = string.format('%.0f', now)
if math.floor(now / length) ~= number or math.floor(now / brief_length) ~= brief_number then
  return {'SLICE', now_told}
end
if not open_changes(KEYS[1], KEYS[2], ARGV[1], true) then return {'UNKNOWN'} end
local slices = any and open_slices(3, length, number, ttl, now)
local brief_slices = any_brief and open_slices(7, brief_length, brief_number, brief_ttl, now)

-- Returns what a counter holds: rights, room, and whether nothing is recorded of it yet; or nothing and an answer.
local function read(key, floor, cap, room)
  local held = pcall('HMGET', key, 'f', 'c', 'a', 'h')
  if held.err then return nil, '!' .. held.err end
  local own_floor, own_cap, rights, space = held[1] or '', held[2] or '', held[3] or '', held[4] or ''
  if own_floor == '' and own_cap == '' then
    if call('EXISTS', key) == 1 then return nil, '!ERR it has neither floor nor cap' end
    return {floor ~= '' and '0', cap ~= '' and room, true}
  end
  if own_floor ~= floor or own_cap ~= cap then return nil, '#' .. own_floor .. ',' .. own_cap end
  if (own_floor ~= '') ~= (rights ~= '') or (rights ~= '' and not is_count(rights)) then
    return nil, '!ERR its rights (a) are no count, or contradict its floor'
  end
  if (own_cap ~= '') ~= (space ~= '') or (space ~= '' and not is_count(space)) then
    return nil, '!ERR its room (h) is no count, or contradicts its cap'
  end
  return {rights ~= '' and rights, space ~= '' and space, false}
end

-- The amount is added, or spent. Returns nothing; or an error, and nothing is changed then.
local function change(key, sign, amount, held, floor, cap, room)
  local total = pcall('HINCRBY', key, sign, amount)
  if type(total) == 'table' then return total.err end
  if held[3] then
    if floor ~= '' then call('HSET', key, 'f', floor, 'a', '0') end
    if cap ~= '' then call('HSET', key, 'c', cap, 'h', room) end
  end
  local more, less_by = amount, '-' .. amount
  if sign == '-' then more, less_by = less_by, more end
  local changed = held[1] and pcall('HINCRBY', key, 'a', more)
  if type(changed) ~= 'table' then
    changed = held[2] and pcall('HINCRBY', key, 'h', less_by)
    if type(changed) ~= 'table' then return nil end
    if held[1] then call('HINCRBY', key, 'a', less_by) end
  end
  call('HINCRBY', key, sign, '-' .. amount)
  return changed.err
end

local function give_back(records, key, digest, id, held, floor, cap, room)
  local text, err, place, after = find_record(records, digest)
  if err then return '!' .. err end
  if not text then
    write_record(records, digest, '-0 x') -- a spend with this key that is still on its way must find it
    return '0'
  end
  local sign, amount, outcome = string.match(text, '^([+-])(%d+) (%w+)$')
  if not sign then return '!' .. UNREADABLE end
  if sign == '+' then return '=' .. text end
  if outcome == 'r' .. id then return '1' end
  if outcome ~= '1' or held[3] then return '0' end
  if held[2] and less(held[2], amount) then return '0 ' .. held[2] end
  err = change(key, '+', amount, held, floor, cap, room)
  if err then return '!' .. err end
  call('HSET', KEYS[records.first + place], digest, '-' .. amount .. ' r' .. id .. ' ' .. after)
  return '1'
end

local function apply(key, v)
  local sign, digest, amount, floor, cap, room = unpack(ARGV, v, v + 5)
  local records = ARGV[v + 6] == '' and slices or brief_slices
  local held, answer = read(key, floor, cap, room)
  if answer then return answer end
  if sign == 'r' then return give_back(records, key, digest, amount, held, floor, cap, room) end
  local text, err = find_record(records, digest)
  if err then return '!' .. err end
  local needs = sign == '-' and held[1] or sign == '+' and held[2]
  local refused = needs and less(needs, amount)
  local asked = sign .. amount
  if text then
    if text == asked .. ' 1' then return '1' end
    if text == asked .. ' 0' then return '0 ' .. (needs or '0') end
    if not string.find(text, '^[+-]%d+ %w+$') then return '!' .. UNREADABLE end
    return '=' .. text
  end
  if not refused then
    err = change(key, sign, amount, held, floor, cap, room)
    if err then return '!' .. err end
  end
  write_record(records, digest, asked .. (refused and ' 0' or ' 1'))
  return refused and '0 ' .. needs or '1'
end

local reply = {'OK', now_told}
for i = 1, items do
  reply[i + 2] = apply(KEYS[i + 10], LEADING + EACH * (i - 1) + 1)
end
if slices then date_slices(slices) end
if brief_slices then date_slices(brief_slices) end
return reply
