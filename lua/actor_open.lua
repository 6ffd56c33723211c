--[[
actor_open: an owner has an open actor in this bucket, or learns how far its old one got.

An id is <generation>.<number>.<own>: the generation is drawn anew whenever a registry is made, the number grows, and
`own` is a part of the owner token. So no late copy of an old command can match a newer actor.

Fields of the registry:
  g  generation   n  highest number issued, to actors and to dots   c  highest number of a record that was cleaned
  <id>            state (o open, c closed, f folding or folded), seq, last seen, owner, display name
  @<owner>        the id that was issued to this owner

KEYS   1 registry     hash
ARGV   1 owner        token of this actor's owner, never used twice
       2 actor        the id to take back; empty: issue one
       3 generation   where the registry has none yet
       4 display      name for people
REPLY  OPEN actor seq   registered, with the highest number recorded of it
       FOLDED seq       its slots are in the base, as of that flush
       GONE             closed, folded and cleaned: nobody can tell any more how far it got
ERROR  none of its own
COST   O(1); up to 7 commands
]]
local registry, owner, want, display = KEYS[1], ARGV[1], ARGV[2], ARGV[4]
local call = redis.call

if call('HSETNX', registry, 'g', ARGV[3]) == 1 then
  call('HSET', registry, 'n', '0', 'c', '0')
end
local settled = call('HMGET', registry, 'g', 'n', 'c')
local generation, issued, cleaned = settled[1], tonumber(settled[2]), tonumber(settled[3])

local function register(actor)
  call('HSET', registry, actor, 'o 0 ' .. call('TIME')[1] .. ' ' .. owner .. ' ' .. display, '@' .. owner, actor)
  return {'OPEN', actor, 0}
end

local function find(actor)
  local record = call('HGET', registry, actor)
  if not record then return nil end
  local state, seq, rest = string.match(record, '^(%a) (%d+) (.*)$')
  return state, tonumber(seq), rest
end

if want == '' then
  local actor = call('HGET', registry, '@' .. owner)
  if actor then
    local state, seq = find(actor)
    if state == 'o' then return {'OPEN', actor, seq} end
  end
  local number = string.format('%.0f', issued + 1)
  call('HSET', registry, 'n', number)
  return register(generation .. '.' .. number .. '.' .. string.sub(owner, 6, 9))
end

local state, seq, rest = find(want)
if not state then
  -- Lost by a fail-over, or with the registry: put back, unless it may have been cleaned.
  local its_generation, number = string.match(want, '^(%w+)%.(%d+)%.')
  number = tonumber(number)
  if its_generation == generation then
    if number <= cleaned then return {'GONE'} end
    if number > issued then call('HSET', registry, 'n', string.format('%.0f', number)) end
  end
  return register(want)
end
if state == 'c' then
  call('HSET', registry, want, 'o ' .. string.format('%.0f', seq) .. ' ' .. rest)
  state = 'o'
end
if state == 'o' then return {'OPEN', want, seq} end
return {'FOLDED', seq}
