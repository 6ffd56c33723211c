"""Flask, by a factory, with counters that were used before a fork."""

from __future__ import annotations

import os

from flask import Flask, Response

from redis_counters import exit_on_sigterm
from redis_counters.contrib.flask import FlaskCounters

counters = FlaskCounters()


def create_app(**config: object) -> Flask:
    app = Flask(__name__)
    app.config.update(config)
    counters.init_app(app)

    @app.get("/")
    def root() -> Response:
        counters.incr("requests")
        counters.incr("amounts", 3)
        assert counters.get("requests") >= 1
        return Response(str(os.getpid()), headers={"Connection": "close"})

    with app.app_context():
        counters.incr("loads")
    return app


def application() -> Flask:
    """For gunicorn, and `flask run`."""
    if "EXIT_ON_SIGTERM" in os.environ:
        exit_on_sigterm()
    return create_app(REDIS_COUNTERS_OPTIONS={"flush_interval": 30.0})
