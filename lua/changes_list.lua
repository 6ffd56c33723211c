--[[
changes_list: which shards have changed since a peer's mark, and the mark that stands for having them.

A mark is `incarnation version full`: the peer has what this deployment had changed up to that version; where that is
below `full` it is still fetching all there is, in parts. An incarnation ends with every restart and fail-over, where
INFO may be asked; else with the registry. A mark of another incarnation, or ahead of ours, is worth nothing. What
stands behind these three is the peer's (see entries_drop), and passed on.

What was merged from the peer itself is not told to it, unless it fetches all. A mark that says that it has is kept as
its receipt (see entries_drop).

KEYS   1 registry    hash
       2 marks       hash
       3 merged      sorted set   index of what was merged from this peer
       4 index       sorted set   what was changed here
       5.. others    sorted set   what was merged from each other region
ARGV   1 peer        its name
       2 mark        what it holds of us; "-": none
       3 most        members to be told, about: those of one version are told together
REPLY  OK mark more remade [member]...   the mark to be kept once the members are merged; 1: there are more, 0: that
                                         is all; how many members come first that are not told yet, but have to be
                                         settled (dots_settle); member: "SHARD:NAME", also of one whose key is gone
       OTHERS region...           nothing written: there is an index of what was merged from these, too
       UNJOINED                   nothing written: changes are not stamped here
ERROR  BADARG ...                 nothing written
COST   O(others); up to 2 commands each; of the changes only what is told, and of notes not many more names
]]
-- include parts/calls.lua
-- include parts/whole.lua
-- include parts/unnamed.lua
-- include parts/notes.lua
-- include parts/enter_notes.lua
-- include parts/incarnation.lua
local registry, index = KEYS[1], KEYS[4]

local peer, mark, most = ARGV[1], ARGV[2], whole(ARGV[3] or '')
if not most or most < 1 then return redis.error_reply('BADARG changes_list: most is no number above 0') end
local settled = call('HMGET', registry, 'g', 'v')
if not settled[2] then return {'UNJOINED'} end
local others = unnamed(KEYS[2], index, 3, #KEYS)
if #others > 0 then return {'OTHERS', unpack(others)} end
local version, incarnation = tonumber(settled[2]), incarnation_of(settled[1])

local since, full = 0, version
local theirs, reached, wanted, drops = string.match(mark, '^(%S+) (%d+) (%d+)( ?%d*)$')
if theirs == incarnation and tonumber(reached) <= version then
  since, full = tonumber(reached), tonumber(wanted)
  if since >= full then
    local before, until_then = string.match(call('HGET', KEYS[2], '>' .. peer) or '', '^(%S+) (%d+) ')
    if before ~= incarnation or tonumber(until_then) < since then
      call('HDEL', KEYS[2], '') -- as in actors_reap: not to be stopped by lack of memory
      call('HSET', KEYS[2], '>' .. peer, mark)
    end
  end
end

-- What is not entered yet is told the next time, and so is all that has changed later.
local first_left = enter_notes(registry, index, most)
local last = first_left and first_left - 1 or version

local first = since < full and 3 or 4
local low, high = string.format('(%.0f', since), string.format('%.0f', last)
-- Members and scores in turn; of one index they come in the order of scores, each once.
local found, indexes = {}, 0
for n = first, #KEYS do
  local changes = call('ZRANGEBYSCORE', KEYS[n], low, high, 'WITHSCORES', 'LIMIT', '0', string.format('%.0f', most + 1))
  if #changes > 0 then
    indexes = indexes + 1
    if indexes == 1 then
      found = changes
    else
      for i = 1, #changes do found[#found + 1] = changes[i] end
    end
  end
end
local covered = last
if #found > 2 * most then
  if indexes > 1 then
    local pairs_found = {}
    for i = 1, #found, 2 do pairs_found[(i + 1) / 2] = {found[i], found[i + 1], tonumber(found[i + 1])} end
    table.sort(pairs_found, function(a, b) return a[3] < b[3] end)
    for i = 1, #pairs_found do found[2 * i - 1], found[2 * i] = pairs_found[i][1], pairs_found[i][2] end
  end
  local one_more = tonumber(found[2 * most + 2])
  if tonumber(found[2]) < one_more then
    covered = one_more - 1
    while tonumber(found[#found]) > covered do found[#found], found[#found - 1] = nil, nil end
  else -- all of it is of one version, and there may be more
    covered = one_more
    local only = string.format('%.0f', covered)
    found = {}
    for n = first, #KEYS do
      local changes = call('ZRANGEBYSCORE', KEYS[n], only, only)
      for i = 1, #changes do
        found[#found + 1] = changes[i]
        found[#found + 1] = only
      end
    end
  end
end

local reached_now = string.format('%s %.0f %.0f', incarnation, covered, full) .. (drops or '')
local reply, remade = {'OK', reached_now, covered < version and '1' or '0'}, 0
local flags = call('ZRANGEBYSCORE', index, '0', '0', 'LIMIT', '0', string.format('%.0f', most))
for i = 1, #flags do
  local kind, names = names_in(flags[i])
  if kind == 'r' then
    remade = remade + 1
    reply[4 + remade] = names[1]
    reply[3] = '1'
  end
end
reply[4] = string.format('%.0f', remade)
local told = {}
for i = 1, #found, 2 do
  local member = found[i]
  if indexes == 1 or not told[member] then
    if indexes > 1 then told[member] = true end
    reply[#reply + 1] = member
  end
end
return reply
