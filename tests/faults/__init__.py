"""Real faults on real servers: what each does to plain INCR, to redis-py's pipelines, and to this library.

``python -m tests.faults`` runs the campaign and prints its table; tests/faults/test_campaign.py runs it small.
"""
