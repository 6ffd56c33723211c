"""Django: settings, checks, the cache that counts, the tags, the middleware."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.http import HttpRequest, HttpResponse
from django.template import Context, engines
from django.test import Client, override_settings
from django.urls import path

from redis_counters import Counters, KeyConflict, Overflow, Refused, Unavailable, UsageError
from redis_counters.contrib.django import counters, idempotency_key
from redis_counters.contrib.django.asgi import delivering
from redis_counters.contrib.django.cache import CounterCache
from redis_counters.testing import LossyLink
from tests.servers import RealServer
from tests.waiting import PATIENCE, until

ERRORS: dict[str, Exception] = {
    "unavailable": Unavailable("x"),
    "usage": UsageError("user <b>must</b> not", argument="user"),
    "closed": UsageError("this client is closed"),
    "conflict": KeyConflict("x"),
    "overflow": Overflow("x"),
    "refused": Refused("x"),
    "other": ZeroDivisionError("x"),
}


def fails(_request: HttpRequest, error: str) -> HttpResponse:
    raise ERRORS[error]


def keyed(request: HttpRequest) -> HttpResponse:
    return HttpResponse(idempotency_key(request, 7))


async def counted(_request: HttpRequest) -> HttpResponse:
    counters.incr("asynchronous")  # no I/O
    raise Unavailable("x")


urlpatterns = [path("fails/<error>", fails), path("keyed", keyed), path("counted", counted)]


@pytest.fixture(scope="module", autouse=True)
def _settings() -> None:
    if settings.configured:  # by this, where the tests of this file are not run in one go
        return
    settings.configure(
        SECRET_KEY="of a test",  # noqa: S106 - it keeps no secret
        ALLOWED_HOSTS=["testserver"],
        ROOT_URLCONF=__name__,
        INSTALLED_APPS=["redis_counters.contrib.django"],
        MIDDLEWARE=["redis_counters.contrib.django.middleware.CounterErrors"],
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
        CACHES={
            "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
            "counters": {"BACKEND": "redis_counters.contrib.django.cache.CounterCache"},
        },
    )
    django.setup()


@pytest.fixture(autouse=True)
def _on_a_server(any_server: RealServer) -> Iterator[None]:
    with override_settings(REDIS_COUNTERS={"URL": any_server.url}):
        yield


def rendered(template: str, **names: object) -> str:
    text = engines["django"].engine.from_string("{% load redis_counters %}" + template).render(Context(names))
    assert isinstance(text, str)
    return text


class TestSettings:
    def test_an_override_takes_effect_at_once(self, any_server: RealServer) -> None:
        """What was counted under the old settings is delivered."""
        counters.incr("x")
        with override_settings(REDIS_COUNTERS={"URL": any_server.url, "OPTIONS": {"namespace": "other"}}):
            assert counters.get("x") == 0
            counters.incr("x", 5)
        assert counters.get("x", max_age=0) == 1
        with Counters.from_url(any_server.url, namespace="other") as other:
            assert other.get("x") == 5

    def test_other_settings_leave_the_client_alone(self) -> None:
        client = counters._current()
        with override_settings(APPEND_SLASH=False):
            assert counters._current() is client

    def test_the_environment_is_the_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("REDIS_COUNTERS_URL", "memory://django-environment")
        with override_settings(REDIS_COUNTERS={}):
            counters.incr("x")
        with Counters.from_url("memory://django-environment") as other:
            assert other.get("x") == 1

    @pytest.mark.parametrize(
        ("setting", "wrong"),
        [
            ("redis://localhost", "dict"),
            ({"URL": "redis://localhost", "max_age": 1}, "max_age"),
            ({"URL": "ftp://localhost"}, "scheme"),
            ({"OPTIONS": {"max_age": -1}}, "max_age"),
            ({"OPTIONS": {"maxage": 1}}, "maxage"),
            ({"OPTIONS": 1}, "OPTIONS"),
        ],
    )
    def test_what_is_wrong_is_told_by_check_and_at_the_first_use(self, setting: Any, wrong: str) -> None:
        with override_settings(REDIS_COUNTERS=setting):
            with pytest.raises(SystemCheckError, match=wrong):
                call_command("check")
            with pytest.raises(ImproperlyConfigured, match=wrong):
                counters.incr("x")

    @pytest.mark.parametrize("url", ["embedded://", "memory://", "redis://127.0.0.1:1"])
    def test_check_asks_nobody(self, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Nor where a journal's directory can be written: an error would stop every command, of any user."""
        (file := tmp_path / "file").touch()
        options = {"journal": str(file / "journals"), "journal_mode": "always"}
        with override_settings(REDIS_COUNTERS={"URL": url, "OPTIONS": options}):
            call_command("check")
        assert "no issues" in capsys.readouterr().out


class TestCache:
    def test_incr_makes_what_is_missing(self) -> None:
        """Where Django's own cache raises, and its idioms around that do no harm."""
        cache = caches["counters"]
        with pytest.raises(ValueError, match="not found"):
            caches["default"].incr("views")
        assert cache.incr("views") == 1
        assert cache.incr("views", 10) == 11
        assert cache.decr("views", 20) == -9
        assert cache.add("views", 0) is False
        assert cache.get_or_set("views", 0) == -9
        assert cache.get_or_set("never counted", 0) == 0
        assert "never counted" in cache
        assert cache.get_many(["views", "never counted"]) == {"views": -9, "never counted": 0}
        assert counters.get("views") == -9  # a key is the counter's name

    def test_asynchronous(self) -> None:
        async def main() -> None:
            cache = caches["counters"]
            assert await cache.aincr("views", 3) == 3
            assert await cache.adecr("views") == 2
            assert await cache.aget("views") == 2
            assert await cache.aget_many(["views"]) == {"views": 2}
            assert await cache.ahas_key("other")
            assert await cache.aget_or_set("views", 0) == 2

        asyncio.run(main())

    def test_versions_and_prefixes(self) -> None:
        cache = caches["counters"]
        assert cache.incr("x", version=2) == 1
        prefixed = CounterCache("", {"KEY_PREFIX": "shop"})
        assert prefixed.incr("x", 2) == 2
        own = CounterCache("", {"KEY_FUNCTION": "django.core.cache.backends.base.default_key_func"})
        assert own.incr("x", 3) == 3
        assert counters.get_many(["x", "2:x", "shop:x", ":1:x"]) == {"x": 0, "2:x": 1, "shop:x": 2, ":1:x": 3}

    def test_delete(self) -> None:
        """As Django says it: whether there was something."""
        cache = caches["counters"]
        cache.incr("x", 3)
        cache.incr("y", version=2)
        assert cache.delete("x") is True
        assert cache.delete("x") is False
        cache.delete_many(["x", "y"])
        assert cache.get_many(["x"]) == {"x": 0}
        assert cache.get("y", version=2) == 1
        assert cache.incr("x") == 1

        async def main() -> None:
            assert await cache.adelete("x")

        asyncio.run(main())
        assert cache.get("x") == 0

    def test_what_a_counter_is_not(self) -> None:
        cache = caches["counters"]
        for call in (
            lambda: cache.set("x", 1),
            lambda: cache.set_many({"x": 1}),
            lambda: cache.add("x", 5),
            lambda: cache.touch("x"),
            lambda: cache.incr_version("x"),
            cache.clear,
        ):
            with pytest.raises(NotImplementedError, match=r"another cache|one by one"):
                call()
        with pytest.raises(TypeError):
            cache.incr("x", 0.5)
        assert cache.get("x") == 0

    def test_it_takes_no_settings_of_its_own(self) -> None:
        for location, params in (("redis://x", {}), ("", {"OPTIONS": {"x": 1}})):
            with pytest.raises(ImproperlyConfigured, match="REDIS_COUNTERS"):
                CounterCache(location, params)

    def test_redis_is_away(self, any_server: RealServer) -> None:
        """It counts; without an error the caller does not count again. None where the value was never known."""
        with LossyLink(any_server.url) as link, override_settings(REDIS_COUNTERS={"URL": link.url}):
            cache = caches["counters"]
            assert cache.incr("known", 4) == 4
            counters.flush()
            link.stop()
            assert cache.incr("unknown") is None
            counters.incr("known", 2)
            assert cache.incr("known") == 7
            link.start()
            counters.flush()
            assert counters.get_many(["known", "unknown"], max_age=0) == {"known": 7, "unknown": 1}


class TestTags:
    def test_values(self) -> None:
        counters.incr("a", 3)
        counters.likes("post").like(7)
        assert rendered('{% counter "a" %} {% counter name %}', name="b") == "3 0"
        assert (
            rendered(
                "{% counters names as found %}{% for n, v in found.items %}{{ n }}{{ v }} {% endfor %}",
                names=["a", "b"],
            )
            == "a3 b0 "
        )
        assert rendered('{% liked "post" 7 as mine %}{{ mine }} {% liked "post" "8" %}') == "True False"

    def test_max_age(self, any_server: RealServer) -> None:
        assert rendered('{% counter "a" %}') == "0"
        with Counters.from_url(any_server.url) as other:
            other.incr("a")
        assert rendered('{% counter "a" max_age=0 %}') == "1"

    def test_markup_in_names(self) -> None:
        counters.incr("<b>")
        found = rendered(
            "{% counters names as found %}{% for n, v in found.items %}{{ n }}{{ v }}{% endfor %}", names=["<b>"]
        )
        assert found == "&lt;b&gt;1"

    def test_redis_is_away(self, any_server: RealServer, caplog: pytest.LogCaptureFixture) -> None:
        """The page is shown, with the last known values, or what it asks for instead; and the log says so."""
        with LossyLink(any_server.url) as link, override_settings(REDIS_COUNTERS={"URL": link.url}):
            counters.incr("a", 3)
            assert rendered('{% counter "a" %}') == "3"
            counters.flush()
            link.stop()
            shown = '{% counter "a" max_age=0 %},{% counter "b" %},{% counter "b" default="?" %},{% liked "a" 1 %}'
            assert rendered(shown) == "3,,?,None"
            link.start()
        assert "last known" in caplog.text

    def test_the_log_is_not_flooded_while_redis_is_away(
        self, any_server: RealServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Each time that Redis goes away, there is a warning for each tag, however many pages are shown."""
        shown = '{% counter "a" max_age=0 %},{% liked "a" 1 %}'
        with LossyLink(any_server.url) as link, override_settings(REDIS_COUNTERS={"URL": link.url}):
            for _ in range(2):
                until(lambda: rendered(shown) == "0,False", "Redis answers")
                caplog.clear()
                link.stop()
                assert [rendered(shown) for _ in range(5)] == ["0,None"] * 5
                warnings = [record.getMessage() for record in caplog.records if "template" in record.getMessage()]
                assert len(warnings) == 2, warnings
                link.start()


class TestAnswers:
    @pytest.mark.parametrize(
        ("error", "status", "text"),
        [
            ("unavailable", 503, "Counting is not possible at the moment. Please try again."),
            ("usage", 400, "This is not accepted: user <b>must</b> not."),
            ("conflict", 422, "This key was used before, with another amount. Nothing was counted."),
            ("overflow", 400, "The number is too large. Nothing was counted."),
        ],
    )
    def test_errors_are_answered(self, error: str, status: int, text: str) -> None:
        answer = Client().get(f"/fails/{error}")
        assert (answer.status_code, answer.content.decode()) == (status, text)
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.headers.get("Retry-After") == ("1" if status == 503 else None)

    @pytest.mark.parametrize("error", ["refused", "closed", "other"])
    @pytest.mark.filterwarnings("ignore::ResourceWarning")
    def test_others_are_not(self, error: str) -> None:
        with pytest.raises(type(ERRORS[error])):
            Client().get(f"/fails/{error}")

    def test_the_header(self) -> None:
        client = Client()
        assert len(client.post("/keyed", headers={"Idempotency-Key": "k"}).content) == 32
        answer = client.post("/keyed")
        assert (answer.status_code, b"is missing" in answer.content) == (400, True)
        with override_settings(MIDDLEWARE=[]):
            assert Client().post("/keyed").status_code == 400  # without the sentence, as Django has it

    def test_an_asynchronous_view(self) -> None:
        async def main() -> None:
            from django.test import AsyncClient

            answer = await AsyncClient().get("/counted")
            assert answer.status_code == 503

        asyncio.run(main())
        assert counters.get("asynchronous") == 1


def test_the_loop_goes_on_while_counts_are_sent_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under ASGI: connections that are still open are answered meanwhile."""
    answered = threading.Event()
    monkeypatch.setattr(counters, "_end", lambda: answered.wait(PATIENCE))
    sent = []

    async def receive() -> dict[str, Any]:
        return {}

    async def send(message: Any) -> None:
        sent.append((message["type"], answered.is_set()))
        asyncio.get_running_loop().call_later(0.05, answered.set)

    async def unused(_scope: Any, _receive: Any, _send: Any) -> None:
        raise AssertionError("the lifespan is no request")

    async def main() -> None:
        await delivering(unused)({"type": "lifespan"}, receive, send)

    asyncio.run(main())
    assert sent == [("lifespan.startup.complete", False), ("lifespan.shutdown.complete", True)]
