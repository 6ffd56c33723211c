"""Over redis-py: commands in, answers out, in both faces. Only here its exceptions become ours.

Flushing keeps several commands in flight on one connection (`lanes`); reading takes a connection for one question
(`asking`). Both give up a connection to a server that is no primary (any more), and with it the idle ones of the pool:
a new one may lead elsewhere, by Sentinels, by DNS, by an address that has moved.
What is private to redis-py, or differs between its versions, is in `compat`.
"""
