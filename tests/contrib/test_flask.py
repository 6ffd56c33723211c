"""The extension of Flask: one client per application, by its settings."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask, abort

from redis_counters import Counters, KeyConflict, Refused, Unavailable, UsageError
from redis_counters.contrib.flask import FlaskCounters, idempotency_key
from tests.contrib.apps.flask_app import counters as factory_counters
from tests.contrib.apps.flask_app import create_app


def test_a_factory_makes_applications_of_their_own() -> None:
    """One extension, two applications with settings of their own: each has its client."""
    one = create_app(TESTING=True, REDIS_COUNTERS_URL="memory://flask-one")
    two = create_app(TESTING=True, REDIS_COUNTERS_URL="memory://flask-two")
    for _ in range(3):
        assert one.test_client().get("/").status_code == 200
    for app, requests in ((one, 3), (two, 0)):
        with app.app_context():
            assert factory_counters.get_many(["requests", "loads"]) == {"requests": requests, "loads": 1}
            factory_counters.close()
        with Counters.from_url(app.config["REDIS_COUNTERS_URL"]) as other:
            assert other.get_many(["requests", "loads"]) == {"requests": requests, "loads": 1}


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments come before the application's settings, these before the environment."""
    monkeypatch.setenv("REDIS_COUNTERS_URL", "memory://flask-environment")
    cases: list[tuple[dict[str, str], dict[str, Any], str]] = [
        ({}, {}, "flask-environment"),
        ({"REDIS_COUNTERS_URL": "memory://flask-setting"}, {}, "flask-setting"),
        ({"REDIS_COUNTERS_URL": "memory://flask-setting"}, {"url": "memory://flask-argument"}, "flask-argument"),
    ]
    for config, arguments, expected in cases:
        app = Flask("x")
        app.config.update(config)
        counters = FlaskCounters(app, **arguments)
        with app.app_context():
            counters.incr("x")
            counters.close()
        with Counters.from_url(f"memory://{expected}") as other:
            assert other.get("x") == 1
            other.decr("x")
            other.flush()


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ({"REDIS_COUNTERS_URL": "ftp://x"}, "scheme"),
        ({"REDIS_COUNTERS_OPTIONS": {"max_age": -1}}, "max_age"),
        ({"REDIS_COUNTERS_OPTIONS": {"maxage": 1}}, "maxage"),
    ],
)
def test_wrong_settings_show_at_the_start(config: dict[str, Any], wrong: str) -> None:
    app = Flask("x")
    app.config.update(config)
    with pytest.raises((UsageError, TypeError), match=wrong):
        FlaskCounters(app)


def test_where_there_is_no_application() -> None:
    """Errors of the program, which no answer hides: not a CounterError."""
    counters = FlaskCounters()
    with pytest.raises(RuntimeError, match="app_context"):
        counters.incr("x")
    app = Flask("x")
    with app.app_context(), pytest.raises(RuntimeError, match="init_app"):
        counters.incr("x")
    app.config["REDIS_COUNTERS_URL"] = "memory://"
    counters.init_app(app)
    with pytest.raises(UsageError, match="twice"):
        counters.init_app(app)


def raising(error: Exception, **options: Any) -> Flask:
    app = Flask("x")

    @app.errorhandler(KeyConflict)
    def own(_error: Exception) -> tuple[str, int]:
        return "mine", 418

    FlaskCounters(app, url="memory://", **options)

    @app.get("/")
    def view() -> str:
        raise error

    return app


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (Unavailable("x"), 503, "try again"),
        (UsageError("this client is closed"), 500, "Internal"),
        (UsageError("user <b>must</b> not", argument="user"), 400, "user <b>must</b> not"),  # as plain text
        (KeyConflict("x"), 418, "mine"),  # the application's own handler stays
        (Refused("x"), 500, "Internal"),
    ],
)
def test_errors_are_answered(error: Exception, status: int, text: str) -> None:
    answer = raising(error).test_client().get("/")
    assert (answer.status_code, text in answer.text) == (status, True)
    if status in (400, 503):
        assert answer.mimetype == "text/plain"


def test_errors_are_left_alone_if_asked() -> None:
    app = raising(Unavailable("x"), handle_errors=False)
    assert app.test_client().get("/").status_code == 500


def test_the_path_of_a_mounted_application_belongs_to_the_key() -> None:
    app = Flask("x")
    FlaskCounters(app, url="memory://")

    @app.post("/<path:_rest>")
    def view(_rest: str) -> str:
        return idempotency_key("ann") if _rest != "none" else abort(404)

    client = app.test_client()
    headers = {"Idempotency-Key": "k"}
    one = client.post("/a/b", headers=headers).text
    assert len(one) == 32
    assert client.post("/b", headers=headers, base_url="http://localhost/a").text == one
    assert client.post("/b", headers=headers).text != one
