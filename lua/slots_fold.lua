--[[
slots_fold: of a closed actor, the slots in these shards are in their base; no value changes.

A base that would leave int64 goes on in another field: `+`, `1+`, `2+`, ... (and `-`, `1-`, ...), each within int64.

KEYS   1 registry   hash
       2.. shards   hash
ARGV   1 actor
REPLY  OK slots [key error]...   how many slots were folded; the keys listed (from 1) were refused by Redis, each alone
       OPEN                      nothing written: the actor is open
       UNKNOWN                   nothing written: no such actor
ERROR  none of its own
COST   O(shards); up to 5 commands each
]]
local registry, actor = KEYS[1], ARGV[1]
local call, pcall = redis.call, redis.pcall
local record = call('HGET', registry, actor)
if not record then return {'UNKNOWN'} end
local state = string.sub(record, 1, 1)
if state == 'o' then return {'OPEN'} end
if state ~= 'f' then call('HSET', registry, actor, 'f' .. string.sub(record, 2)) end

local MOST_BASES = 16 -- far more than counts need: a slot that fits nowhere is no number

local function add_to_base(key, sign, slot, floor)
  local number, field = 0, sign
  while true do
    if floor then call('HINCRBY', key, field, '-' .. floor) end
    local sum = pcall('HINCRBY', key, field, slot)
    if type(sum) ~= 'table' then return nil end
    if floor then call('HINCRBY', key, field, floor) end
    number = number + 1
    if number > MOST_BASES then return sum.err end
    field = number .. sign
  end
end

local reply, folded = {'OK', 0}, 0

local function fold(i, key, sign, field, slot, floor)
  if not slot then return end
  local err = add_to_base(key, sign, slot, floor)
  if err then
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
    reply[#reply + 1] = i - 1
    reply[#reply + 1] = slots.err
  else
    fold(i, key, '+', plus, slots[1], slots[2])
    fold(i, key, '-', minus, slots[3], slots[4])
  end
end
reply[2] = folded
return reply
