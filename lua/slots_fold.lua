--[[
slots_fold: of a closed actor, the slots in these shards are in their base; no value changes.

A base that would leave int64 goes on in another field: `+`, `1+`, `2+`, ... (and `-`, `1-`, ...), each within int64.

KEYS   1 registry   hash
       2.. shards   hash
ARGV   1 actor
       2 delay      seconds that must have passed since it was closed; 0 from its owner, which tells nothing any more
REPLY  OK slots [key error]...   how many slots were folded; the keys listed (from 1) were refused by Redis, each alone
       OPEN                      nothing written: the actor is open
       EARLY                     nothing written: it was closed later than that
       UNKNOWN                   nothing written: no such actor, or its record is unreadable
ERROR  BADARG ...                nothing written
COST   O(shards); up to 7 commands each, and 3 for each base that is full
]]
-- include parts/calls.lua
-- include parts/whole.lua
-- include parts/less.lua
-- include parts/is_count.lua
-- include parts/add_to_base.lua
local registry, actor = KEYS[1], ARGV[1]
local delay = whole(ARGV[2])
if not delay then return redis.error_reply('BADARG slots_fold: delay is no number') end
local state, seq, seen, rest = string.match(call('HGET', registry, actor) or '', '^(%a) (%d+) (%d+) (.*)$')
if not state then return {'UNKNOWN'} end
if state == 'o' then return {'OPEN'} end
local now = call('TIME')[1]
-- A fail-over must not open again what was folded: page "The design". (Times are whole seconds: more, not as many.)
if state == 'c' and delay > 0 and tonumber(now) - tonumber(seen) <= delay then return {'EARLY'} end

-- A slot is counted twice between its HINCRBY and its HDEL: if the server takes no writes, or no HDEL from this user,
-- it must say so now, to the whole. Lack of memory does not stop it (HDEL needs none, and Redis checks only a script's
-- first write): folding frees memory.
call('HDEL', registry, '')
if state ~= 'f' then call('HSET', registry, actor, 'f ' .. seq .. ' ' .. now .. ' ' .. rest) end

local MOST = '9223372036854775807'
local reply, folded = {'OK', 0}, 0

local function fold(i, key, sign, field, slot, floor)
  if not slot then return end
  if floor == '0' then floor = nil end
  local base, err
  if not is_count(slot) or less(MOST, slot) or (floor and (not is_count(floor) or less(slot, floor))) then
    err = 'ERR ' .. field .. ' and its floor are not a count and a lower one'
  else
    base, err = add_to_base(key, sign, slot, floor)
  end
  if not base then
    reply[#reply + 1] = i - 1
    reply[#reply + 1] = err
  else
    call('HDEL', key, field, '~' .. field)
    folded = folded + 1
  end
end

local plus, minus = actor .. '+', actor .. '-'
local floor_plus, floor_minus = '~' .. plus, '~' .. minus
for i = 2, #KEYS do
  local key = KEYS[i]
  local slots = pcall('HMGET', key, plus, floor_plus, minus, floor_minus)
  if slots.err then
    local found = pcall('GET', key) -- a shard that was sealed had no slot left
    if type(found) ~= 'string' or not string.find(found, '^sealed ') then
      reply[#reply + 1] = i - 1
      reply[#reply + 1] = slots.err
    end
  else
    fold(i, key, '+', plus, slots[1], slots[2])
    fold(i, key, '-', minus, slots[3], slots[4])
  end
end
reply[2] = folded
return reply
