"""Redis loses what it had confirmed, and no call ends with an error: it is noticed, and told again, all the same.

Each test compares what another client reads while the process that counted lives: nothing is closed before that.
"""
