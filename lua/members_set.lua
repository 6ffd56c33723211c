--[[
members_set: this deployment bears its name among the regions, for good, and these are its peers.

Fields of meta: region, its name; id, drawn when it first joined, which binds the name to it; m:NAME, of every region
that is known, itself too: its id, and "member" or "evicted".

A name that no region has joined with may be replaced if it is the default, "main".

KEYS   1 meta         hash
ARGV   1 region       the name
       2 id           where none is settled yet
       3.. members    of each: region, id, "member" or "evicted"
REPLY  OK region id      as settled
       BOUND region id   nothing written: it bears another name; id "-": it has joined nowhere, but counts under it
ERROR  BADARG ...        nothing written
COST   O(members); 0 commands each; 2 for all
]]
local meta, region, id = KEYS[1], ARGV[1], ARGV[2]
local function is_name(text)
  return #text <= 64 and string.find(text, '^[%w._-]+$')
end
if #ARGV % 3 ~= 2 or not is_name(region) or not string.find(id, '^%S+$') then
  return redis.error_reply('BADARG members_set: there is no region and its id, or arguments do not fit')
end
local fields = {}
for i = 3, #ARGV, 3 do
  local name, its_id, state = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if not is_name(name) or not string.find(its_id, '^%S+$') or (state ~= 'member' and state ~= 'evicted') then
    return redis.error_reply('BADARG members_set: argument ' .. i .. ' is no region, or no id and state follow')
  end
  fields[#fields + 1] = 'm:' .. name
  fields[#fields + 1] = its_id .. ' ' .. state
end
local settled = redis.call('HMGET', meta, 'region', 'id')
if (settled[1] or region) ~= region and (settled[2] or settled[1] ~= 'main') then
  return {'BOUND', settled[1], settled[2] or '-'}
end
id = settled[2] or id
redis.call('HSET', meta, 'region', region, 'id', id, unpack(fields))
return {'OK', region, id}
