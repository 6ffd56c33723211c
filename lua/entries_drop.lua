--[[
entries_drop: entries that count for nothing are gone from these shards, where all peers have heard of it.

That is: the total of an entry is its floor, it is not of the live dot, nor of a region to be kept (evicted: it may come
back with it); and every peer's receipt, of this very incarnation, covers the shard's last change, of any region.

What a peer sent before it had heard of it may be in flight still, and would bring back what is dropped: so with every
drop all marks change (a number behind them), and entries_merge refuses what was asked for with another one. A peer that
this bucket has no mark for could not be stopped like that: then nothing is dropped.

KEYS   1 registry    hash
       2 marks       hash
       3 index       sorted set   what was changed here
       4.. others    sorted sets, what was merged from each region; then shards, hashes
ARGV   1 indexes     how many of the keys from the third on are indexes
       2 peers       how many names of peers follow
       3.. names     of the peers; then how many regions are to be kept, and their names
REPLY  OK dropped          how many entries
       OTHERS region...    nothing written: there is an index of what was merged from these, too
       UNJOINED            nothing written: changes are not stamped here
ERROR  BADARG ...          nothing written
COST   O(shards); up to 2 commands each; and what notes_enter takes for all that is noted
]]
-- include parts/calls.lua
-- include parts/whole.lua
-- include parts/unnamed.lua
-- include parts/enter_notes.lua
-- include parts/incarnation.lua
local registry, index = KEYS[1], KEYS[3]
local indexes, peers = whole(ARGV[1] or ''), whole(ARGV[2] or '')
local kept = indexes and peers and whole(ARGV[3 + peers] or '')
if not kept or indexes < 1 or #KEYS < 2 + indexes or #ARGV ~= 3 + peers + kept then
  return redis.error_reply('BADARG entries_drop: ' .. #KEYS .. ' keys, ' .. #ARGV .. ' arguments do not fit')
end

local settled = call('HMGET', registry, 'g', 'v')
if not settled[2] then return {'UNJOINED'} end
local others = unnamed(KEYS[2], index, 3, 2 + indexes)
if #others > 0 then return {'OTHERS', unpack(others)} end

local covered, incarnation = tonumber(settled[2]), incarnation_of(settled[1])
for i = 3, 2 + peers do
  local its, version = string.match(call('HGET', KEYS[2], '>' .. ARGV[i]) or '', '^(%S+) (%d+) ')
  if its ~= incarnation or not call('HGET', KEYS[2], '<' .. ARGV[i]) then return {'OK', 0} end
  covered = math.min(covered, tonumber(version))
end
local is_kept = {}
for i = 4 + peers, #ARGV do is_kept[ARGV[i]] = true end

local byte, TILDE, AT = string.byte, string.byte('~@', 1, 2)

-- Returns how many entries are dropped. (Of very many some stay, until the next call.)
local function drop(key)
  local fields, entries, dropped, gone = pcall('HGETALL', key), {}, 0, {}
  if fields.err then return 0 end
  local live = ''
  for i = 1, #fields, 2 do
    local first = byte(fields[i])
    local floor, name, sign
    if first == AT or first == TILDE then floor, name, sign = string.match(fields[i], '^(~?)@(.*)([+-])$') end
    if name then
      local entry = entries[name] or {}
      entry[floor .. sign] = fields[i + 1]
      entry[#entry + 1] = fields[i]
      entries[name] = entry
    elseif fields[i] == 'd' then
      live = '/' .. fields[i + 1]
    end
  end
  for name, entry in pairs(entries) do
    local is_floor = (entry['+'] or '0') == (entry['~+'] or '0') and (entry['-'] or '0') == (entry['~-'] or '0')
    if is_floor and name ~= live and not is_kept[string.match(name, '^[^/]*')] and #gone < 4000 then
      for n = 1, #entry do gone[#gone + 1] = entry[n] end
      dropped = dropped + 1
    end
  end
  if #gone > 0 then call('HDEL', key, unpack(gone)) end
  return dropped
end

enter_notes(registry, index, math.huge)
local GROUP, dropped = 1000, 0
for first = 3 + indexes, #KEYS, GROUP do
  local members, last = {}, {}
  for i = first, math.min(first + GROUP - 1, #KEYS) do members[#members + 1] = string.sub(KEYS[i], #registry + 2) end
  for n = 3, 2 + indexes do
    local stamps = call('ZMSCORE', KEYS[n], unpack(members))
    for i = 1, #members do
      local stamp = tonumber(stamps[i] or '')
      if stamp and stamp > (last[i] or -1) then last[i] = stamp end
    end
  end
  for i = 1, #members do
    if last[i] and last[i] <= covered then dropped = dropped + drop(KEYS[first + i - 1]) end
  end
end
if dropped > 0 then
  local number, fields = string.format(' %.0f', call('HINCRBY', KEYS[2], 'e', '1')), call('HGETALL', KEYS[2])
  for i = 1, #fields, 2 do
    local mark = string.find(fields[i], '^<') and string.match(fields[i + 1], '^%S+ %d+ %d+')
    if mark then call('HSET', KEYS[2], fields[i], mark .. number) end
  end
end
return {'OK', dropped}
