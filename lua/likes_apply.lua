--[[
likes_apply: each user is in the set of those who like, or is not, as told; who changed that has changed the base by 1.

A like that is new is 1 more in the base of +, one that is taken back is 1 more in the base of -. Set and base are
changed in one step, so the value is the number of users.

KEYS   1 registry     hash
       2.. pairs      of each item: the shard, a hash, and its users, a set
ARGV   1 generation   where the registry has none yet; empty: answer UNKNOWN then
       2.. values     of each item: "+" or "-", user
REPLY  OK [answer]...   of each item: 1 changed; 2 changed, and its shard was new; 0 was so before;
                        "!" and Redis's error where it refuses this item, alone
       UNKNOWN          nothing written: there is no registry
ERROR  BADARG ...       nothing written
COST   O(items); up to 4 commands each
]]
local registry, call, pcall = KEYS[1], redis.call, redis.pcall
local items = (#KEYS - 1) / 2
if #ARGV ~= #KEYS or items ~= math.floor(items) then
  return redis.error_reply('BADARG likes_apply: ' .. #KEYS .. ' keys, ' .. #ARGV .. ' arguments do not fit')
end
for i = 1, items do
  local sign = ARGV[2 * i]
  if sign ~= '+' and sign ~= '-' then
    return redis.error_reply('BADARG likes_apply: sign ' .. i .. ' is none')
  end
end

local settled = call('HMGET', registry, 'g', 'n')
local generation, issued = settled[1], tonumber(settled[2] or '0')
if not generation and ARGV[1] == '' then return {'UNKNOWN'} end
-- If the server has no memory, or takes no writes, it must say so now, to the whole.
if generation then
  call('HSET', registry, 'g', generation)
else
  generation = ARGV[1]
  call('HSET', registry, 'g', generation, 'n', '0', 'c', '0')
end
local highest = string.format('%.0f', issued + 1)
local dot, dot_used = generation .. '.' .. highest, 0

-- Returns the field of the base that took it, or an error. One that is full, or is no number, is passed over.
local MOST_BASES = 16
local function add_to_base(key, sign)
  local field, err = sign, nil
  for further = 1, MOST_BASES do
    local sum = pcall('HINCRBY', key, field, '1')
    if type(sum) ~= 'table' then return field end
    err = sum.err
    field = further .. sign
  end
  return nil, err
end

local has_dot = {}
local function apply(i, key, sign, user)
  local member = pcall('SISMEMBER', KEYS[i + 1], user)
  if type(member) == 'table' then return '!' .. member.err end
  if member == (sign == '+' and 1 or 0) then return '0' end
  local field, err = add_to_base(key, sign)
  if err then return '!' .. err end
  local changed
  if sign == '+' then changed = pcall('SADD', KEYS[i + 1], user) else changed = pcall('SREM', KEYS[i + 1], user) end
  if type(changed) == 'table' then
    call('HINCRBY', key, field, '-1')
    return '!' .. changed.err
  end
  local new = 0
  if not has_dot[key] then
    new = call('HSETNX', key, 'd', dot)
    has_dot[key] = true
    dot_used = dot_used + new
  end
  return new == 1 and '2' or '1'
end

local reply = {'OK'}
for i = 1, items do
  reply[i + 1] = apply(2 * i, KEYS[2 * i], ARGV[2 * i], ARGV[2 * i + 1])
end
if dot_used > 0 then call('HSET', registry, 'n', highest) end
return reply
