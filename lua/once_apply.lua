--[[
once_apply: each amount is in the base of its shard, unless its key has a record that is younger than the ttl.

A record of a key holds the amount (parts/records.lua). Record and effect are one step, and the server's clock alone
decides.

KEYS   1 registry     hash
       2 index        sorted set   what was changed here; touched only where changes are stamped
       3 after        hash   the slice after now: a server that was the primary before may have had a clock ahead
       4 slice        hash   the slice of now, which gets the records
       5 before       hash   the slice before
       6 earlier      hash   and the one before that
       7.. shards     hash   one per item; a shard with many items is named as often
ARGV   1 generation   where the registry has none yet; empty: answer UNKNOWN then
       2 length       of a slice, milliseconds; at least half of the ttl
       3 number       of the slice of now: the time divided by the length
       4 ttl          milliseconds
       5.. values     of each item: digest, amount
REPLY  OK now [answer]...   the server's time in milliseconds, and of each item: 1 counted; 2 counted, and its shard was
                            new; 0 was counted before; "=" and the amount, if that was another, nothing is counted then;
                            "!" and Redis's error where it refuses this item, alone
       SLICE now            nothing written: this is another slice's time
       UNKNOWN              nothing written: there is no registry
ERROR  BADARG ...           nothing written
COST   O(items); up to 7 commands each; of a new shard, where changes are stamped, up to 2 more;
       of notes as in slots_merge
]]
-- include parts/calls.lua
-- include parts/whole.lua
-- include parts/records.lua
-- include parts/open_changes.lua
-- include parts/has_counted.lua
-- include parts/add_to_base.lua
-- include parts/write_changes.lua
local items = #KEYS - 6
if items < 0 or #ARGV ~= 4 + 2 * items then
  return redis.error_reply('BADARG once_apply: ' .. #KEYS .. ' keys, ' .. #ARGV .. ' arguments do not fit')
end
local length, number, ttl = whole(ARGV[2]), whole(ARGV[3]), whole(ARGV[4])
if not length or not number or not ttl or length < 1 or ttl < 1 or ttl > 2 * length then
  return redis.error_reply('BADARG once_apply: length, number and ttl are no numbers, or do not go together')
end
for i = 1, items do
  if not string.find(ARGV[4 + 2 * i], '^%d+$') then
    return redis.error_reply('BADARG once_apply: amount ' .. i .. ' is no count')
  end
end

local time = call('TIME')
local now = 1000 * tonumber(time[1]) + math.floor(tonumber(time[2]) / 1000)
local now_told = string.format('%.0f', now)
if math.floor(now / length) ~= number then return {'SLICE', now_told} end

local changes = open_changes(KEYS[1], KEYS[2], ARGV[1], true)
if not changes then return {'UNKNOWN'} end
local slices = open_slices(3, length, number, ttl, now)
local shards = {} -- that have counted

local function apply(key, digest, amount)
  local counted, err = find_record(slices, digest)
  if err then return '!' .. err end
  if counted == amount then return '0' end
  if counted and not string.find(counted, '^%d+$') then return '!' .. UNREADABLE end
  if counted then return '=' .. counted end
  local field, full = add_to_base(key, '+', amount)
  if not field then return '!' .. full end
  write_record(slices, digest, amount)
  return has_counted(changes, shards, key)
end

local reply = {'OK', now_told}
for i = 1, items do
  reply[i + 2] = apply(KEYS[i + 6], ARGV[3 + 2 * i], ARGV[4 + 2 * i])
end
date_slices(slices)
write_changes(changes)
return reply
