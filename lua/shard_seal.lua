--[[
shard_seal: a shard that no actor counts in takes no counts any more; what it holds still counts.

Its key is a text then, which every command on hashes refuses: `sealed id time dot plus minus`. So an actor that
counts in it is refused (SEALED, see slots_merge), and has to unseal it; readers get its content as before (slots_read).

KEYS   1 shard        hash
ARGV   1 id           of the narrowing
REPLY  OK now since dot plus minus   sealed with this id since then, by the server's clock; dot "-": nothing was there
       BUSY slots     nothing written: an actor counts in it, or did and is not folded
       EXPIRES        nothing written: it expires
       ODD field      nothing written: it holds something that cannot be moved, or lacks its dot
ERROR  BADARG ...     nothing written
       WRONGTYPE      something else is in its place
COST   O(1); 5 commands; one of them reads the shard, which holds few fields or is not sealed
]]
-- include parts/calls.lua
local key, id = KEYS[1], ARGV[1]
if not string.find(id, '^%S+$') then return redis.error_reply('BADARG shard_seal: id is none') end
local now = call('TIME')[1]

local function seal(dot, plus, minus)
  call('SET', key, table.concat({'sealed', id, now, dot, plus, minus}, ' '))
  return {'OK', now, now, dot, plus, minus}
end

local kind = call('TYPE', key).ok
if kind == 'none' then return seal('-', '0', '0') end
if kind == 'string' then
  local by, since, dot, plus, minus = string.match(call('GET', key), '^sealed (%S+) (%d+) (%S+) (%d+) (%d+)$')
  if by == id then return {'OK', now, since, dot, plus, minus} end
  if by then return seal(dot, plus, minus) end
end

local fields = call('HGETALL', key)
local held, slots, floors, odd = {}, 0, {}, nil
for i = 1, #fields, 2 do
  local field = fields[i]
  if field == '+' or field == '-' or field == 'd' then
    held[field] = fields[i + 1]
  elseif string.sub(field, 1, 3) == '~@/' then
    floors[string.sub(field, 4)] = fields[i + 1]
  elseif string.find(field, '[+-]$') and string.find(field, '.', 1, true) then
    slots = slots + 1
  else
    odd = field
  end
end
if slots > 0 then return {'BUSY', slots} end
if not held['d'] then odd = odd or 'd' end
-- What was reset (shard_reset) counts nothing, if it is all: a floor that leaves something cannot be moved.
local was_reset = next(floors) ~= nil
for i = 1, 2 do
  local sign = i == 1 and '+' or '-'
  local field = (held['d'] or '') .. sign
  if was_reset and (floors[field] or '0') ~= (held[sign] or '0') then odd = '~@/' .. field end
  floors[field] = nil
end
if next(floors) then odd = '~@/' .. next(floors) end
if odd then return {'ODD', odd} end
if call('PTTL', key) >= 0 then return {'EXPIRES'} end
if was_reset then return seal('-', '0', '0') end
return seal(held['d'], held['+'] or '0', held['-'] or '0')
