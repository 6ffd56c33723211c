--[[
actor_open: an owner has an open actor in this bucket, or learns how far its old one got.

An id is <generation>.<number>.<own>: the generation is drawn anew whenever a registry is made, the number grows, and
`own` is a part of the owner token. So no late copy of an old command can match a newer actor.

Fields of the registry:
  g  generation   n  highest number issued, to actors and to dots   c  highest number of a record that was cleaned
  <id>            state (o open, c closed, f folding or folded), seq, time of the last change, owner, display name
  @<owner>        the id that was issued to this owner
  w  when the last complete walk over the bucket's counters began: see actors_clean
  v  version of the last change in the bucket; where it is, changes are stamped: see region_join

KEYS   1 registry     hash
       2 index        sorted set   what was changed here; made with the registry, with nothing in it
ARGV   1 owner        token of this actor's owner, never used twice
       2 actor        the id to take back; empty: issue one
       3 generation   where the registry has none yet
       4 display      name for people
       5 delay        seconds after its closing in which an actor may be taken back: later it may have been folded
REPLY  OPEN actor seq   registered, with the highest number recorded of it
       FOLDED seq       its slots are in the base, or will be, as of that flush: it sends nothing any more
       GONE             closed, folded and cleaned: how far it got is not known any more
ERROR  BADARG ...       nothing written
COST   O(1); up to 5 commands, and one with a new registry; an actor that is open already is found without a write
]]
-- include parts/calls.lua
-- include parts/whole.lua
local registry, owner, want, display = KEYS[1], ARGV[1], ARGV[2], ARGV[4]
local delay = whole(ARGV[5])
if not delay then return redis.error_reply('BADARG actor_open: delay is no number') end

local settled = call('HMGET', registry, 'g', 'n', 'c')
local generation, issued, cleaned = settled[1], settled[2], settled[3]
if not generation then generation, issued, cleaned = ARGV[3], '0', '0' end
issued = tonumber(issued)

-- One command writes it all, a new registry too: nothing of it can be there without the rest. The index is made beside
-- it: where a hash slot of a cluster moves, scripts that name a key which is not there have to wait (TRYAGAIN).
local function register(actor)
  local record = 'o 0 ' .. call('TIME')[1] .. ' ' .. owner .. ' ' .. display
  local highest = string.format('%.0f', issued)
  call('HSET', registry, 'g', generation, 'n', highest, 'c', cleaned, actor, record, '@' .. owner, actor)
  if not settled[1] then pcall('ZADD', KEYS[2], 'NX', '0', '0:' .. string.rep('-', 64)) end
  return {'OPEN', actor, 0}
end

local function find(actor)
  local record = call('HGET', registry, actor)
  if not record then return nil end
  local state, seq, seen, rest = string.match(record, '^(%a) (%d+) (%d+) (.*)$')
  return state, tonumber(seq), rest, tonumber(seen)
end

if want == '' then
  local actor = call('HGET', registry, '@' .. owner)
  if actor then
    local state, seq = find(actor)
    if state == 'o' then return {'OPEN', actor, seq} end
  end
  issued = issued + 1
  return register(generation .. '.' .. string.format('%.0f', issued) .. '.' .. string.sub(owner, 6, 9))
end

local state, seq, rest, seen = find(want)
if not state then
  -- Lost by a fail-over, or with the registry: put back, unless it may have been cleaned.
  local its_generation, number = string.match(want, '^(%w+)%.(%d+)%.')
  number = tonumber(number)
  if its_generation == generation then
    if number <= tonumber(cleaned) then return {'GONE'} end
    issued = math.max(issued, number)
  end
  return register(want)
end
if state == 'c' then
  -- Later than that it may have been folded, and its owner have sent the rest elsewhere, before a fail-over took that
  -- back: late copies of this call and of flushes must not count the rest again.
  local now = call('TIME')[1]
  if tonumber(now) - seen > delay then return {'FOLDED', seq} end
  call('HSET', registry, want, 'o ' .. string.format('%.0f', seq) .. ' ' .. now .. ' ' .. rest)
  state = 'o'
end
if state == 'o' then return {'OPEN', want, seq} end
return {'FOLDED', seq}
