"""Rules of the exchange between regions, each broken on purpose; as `tests.simulation.breaks` has those of one.

Not here, because schedules by chance hardly come to where they matter, or another rule catches it: who is evicted and
returns, and what makes void what is on its way. `tests/regions` and `tests/lua` test these.
"""

from __future__ import annotations

from tests.simulation.breaks import Break

CLIENT = (
    Break("what is not confirmed goes on", "exchange.pull:check_confirmed", "if durability is None:", "if True:"),
    Break("all digests are equal", "exchange.compare:Comparison._compare", "if digests[0] == digests[1]:", "if True:", "compared"),
    Break("what differs is not told", "exchange.compare:Comparison._send", "if not lacks or since == NONE:", "if True:", "compared"),
)  # fmt: skip

SCRIPTS = (
    Break("what is told is taken, more or less", "entries_merge", "and less(old, count) then", "then"),
    Break("counts are compared as texts", "entries_merge", "return #a < #b or (#a == #b and a < b)", "return a < b"),
    Break("any mark will do", "entries_merge", "if held ~= since then", "if false then"),
    Break("what was merged is not told to others", "entries_merge", "call('ZADD', KEYS[4], unpack(stamps))", "call('ZADD', KEYS[4], 'XX', unpack(stamps))", "ring"),
    Break("merging is no change", "entries_merge", "if reply[3] > 0 then\n  local fields", "if false then\n  local fields"),
    Break("all incarnations are one", "changes_list", "if theirs == incarnation and", "if theirs and"),
    Break("a mark says more than was told", "changes_list", "    covered = one_more - 1\n    while tonumber(found[#found]) > covered do", "    covered = one_more\n    while tonumber(found[#found]) >= covered do"),
    Break("of one version some are told", "changes_list", "    for n = first, #KEYS do\n      local changes = call('ZRANGEBYSCORE', KEYS[n], only, only)", "    for n = first, first do\n      local changes = call('ZRANGEBYSCORE', KEYS[n], only, only, 'LIMIT', '0', '1')"),
    Break("a reset is told, but not how far it has seen", "entries_read", "entry[(sign == PLUS and 1 or 2) + from * 2 - 4] = count", "entry[(sign == PLUS and 1 or 2) + from * 2 - 4] = from == 2 and count or '0'", "resets"),
    Break("entries are dropped before all have heard of them", "entries_drop", "if last[i] and last[i] <= covered then", "if last[i] then", "resets"),
    Break("entries that count are dropped", "entries_drop", "if is_floor and", "if"),
    Break("a reset forgets other regions", "shard_reset", "local floor, place, sign = string.match(field, '^(~?)@([^/]*/.*)([+-])$')", "local floor, place, sign = string.match(field, '^(~?)@(/.*)([+-])$')", "resets"),
    Break("a reset is no change", "shard_reset", "if joined and seen then", "if false then", "resets"),
    Break("a deleted counter goes on under its dot", "shard_reset", "  write('d', new_dot())", "  write('d', dot)", "resets"),
    Break("a deleted counter begins with what it had", "shard_reset", "  for i = 1, #slots, 2 do write('~' .. slots[i], slots[i + 1]) end\n", "", "resets"),
    Break("a flush is no change", "slots_merge", "  if count == 0 then return end\n  if changes.noted", "  if true then return end\n  if changes.noted"),
    Break("a key that a fail-over took back is another thing", "changes_list", "its and tonumber(its) < version", "kind == 'm'"),
    Break("a key that was lost and made again is the same thing", "changes_list", "its and tonumber(its) < version", "false"),
    Break("what may be another thing is told", "entries_read", "== true\nend", "== 0\nend"),
    Break("nobody gives another dot to what was made again", "dots_settle", "if string.find(dot, '%.0$') then", "if false then"),
    Break("what was told is less than another thing that is there", "entries_merge", "is_unknown(known, index, key, there['d'] or '') and {} or live", "live"),
    Break("a reset does not ask which dot it is", "shard_reset", "  settle_dot(registry, index, key)\nend", "end", "resets"),
    Break("what changes behind a note is entered at once", "slots_merge", "if changes.noted > 0 or count >= FEW", "if count >= FEW"),
    Break("what is only noted counts as told", "changes_list", "local last = first_left and first_left - 1 or version", "local last = version"),
    Break("a note is lost when it is entered", "changes_list", "      call('ZADD', index, 'GT', unpack(stamps))\n", ""),
)  # fmt: skip

BREAKS = CLIENT + SCRIPTS

BEGIN = {
    "any mark will do": 3903,
    "what was told is less than another thing that is there": 720100,
    "all digests are equal": 284,
    "what differs is not told": 284,
    "what is not confirmed goes on": 377,
    "all incarnations are one": 334,
    "entries are dropped before all have heard of them": 81,
    "a key that a fail-over took back is another thing": 119,
    "a key that was lost and made again is the same thing": 60,
    "what may be another thing is told": 39,
    "a reset does not ask which dot it is": 221,
    "what changes behind a note is entered at once": 1434,
    "what is only noted counts as told": 34,
}
"""As of one region: the seed to begin with."""
