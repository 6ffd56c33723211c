"""A URL is accepted, or refused at once in words that do not repeat any of it."""

from __future__ import annotations

from typing import Any

import pytest
import redis
import redis.asyncio

from redis_counters import Counters, UsageError
from redis_counters.asyncio import Counters as AsyncioCounters
from redis_counters.drivers import urls
from tests.servers import RealServer

WRONG = [
    "localhost:6379",
    "http://localhost",
    "redis://localhost:port",
    "redis://localhost:65536",
    "redis://user:sup3r@secret/word@localhost:6379/0",
    "unix://",
    "unix:///",
    "unix://user:sup3r@/?db=0",
    "redis://user:sup3r/secret@localhost:6379/0",
    "redis://user:sup3r#secret@localhost:6379/0",
    "redis://user:123#secret@localhost:6379/0",
    "redis://localhost:6379/abc",
    "redis://localhost:6379/0?db=zz",
    "redis://localhost:6379/0?foo=bar",
    "redis+cluster://localhost:6379?foo=bar",
    "redis+cluster://user:sup3r@localhost:6379?protocol=9",
    "redis://user:sup3r@localhost:6379/0?protocol=9",
    "embedded://somewhere",
]


@pytest.mark.parametrize("url", WRONG)
@pytest.mark.parametrize("face", [Counters, AsyncioCounters])
def test_a_wrong_url_is_refused_at_once(face: type[Counters | AsyncioCounters], url: str) -> None:
    """Nothing of a password shows, not even where it is what makes the URL wrong."""
    with pytest.raises(UsageError) as refused:
        face.from_url(url)
    assert "sup3r" not in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
@pytest.mark.parametrize("face", [Counters, AsyncioCounters])
def test_what_is_wrong_with_a_url(face: type[Counters | AsyncioCounters], scheme: str) -> None:
    """A port, a password that is to be encoded, a socket without a path: each is told as what it is."""
    for port in ("65536", "port"):
        with pytest.raises(UsageError, match=r"^url has a port that is no number from 0 to 65535: .*percent-encoded"):
            face.from_url(f"{scheme}://localhost:{port}")
    with pytest.raises(UsageError, match=r"^url is malformed: .*percent-encoded"):
        face.from_url(f"{scheme}://user:p@ss/word@localhost:1/0")
    with pytest.raises(UsageError, match=r"^url of a socket must name its path: unix:///"):
        face.from_url("unix://?db=0")


def test_a_scheme_may_be_in_capitals(any_server: RealServer) -> None:
    """As in any URL."""
    with Counters.from_url(any_server.url.replace("redis", "REDIS")) as counters:
        counters.incr("x")
        assert counters.get("x") == 1


def test_a_pipeline_is_no_client(any_server: RealServer) -> None:
    """It has a pool, but it collects commands instead of answering them."""
    with redis.Redis(port=any_server.port) as client, pytest.raises(UsageError, match="Pipeline"):
        Counters(client.pipeline())


def test_one_name_is_not_many(any_server: RealServer) -> None:
    """A str is an iterable of str: taken for one, it would be read letter by letter."""
    with Counters.from_url(any_server.url) as counters, pytest.raises(TypeError, match="names must be an iterable"):
        counters.get_many("abc")


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster", "redis+sentinel"])
@pytest.mark.parametrize("face", [Counters, AsyncioCounters])
def test_an_unknown_option_is_named(face: type[Counters | AsyncioCounters], scheme: str) -> None:
    """In words about the URL, not about a function of redis-py; nothing is connected."""
    with pytest.raises(UsageError, match=r"^url has an option that redis-py does not know: foo$"):
        face.from_url(f"{scheme}://localhost:1/{'counted' if 'sentinel' in scheme else ''}?foo=1")


@pytest.mark.parametrize("face", [Counters, AsyncioCounters])
def test_an_option_of_counters_does_not_belong_in_the_url(face: type[Counters | AsyncioCounters]) -> None:
    with pytest.raises(UsageError, match=r"flush_interval; it is one of Counters: give it as a keyword$"):
        face.from_url("redis://localhost:1?flush_interval=1")


@pytest.mark.parametrize("face", [Counters, AsyncioCounters])
def test_the_option_that_was_meant_is_named(face: Any) -> None:
    with pytest.raises(TypeError, match=r"no option 'flush_intervall'; is it 'flush_interval'\?$"):
        face.from_url("redis://localhost:1", flush_intervall=1)
    with pytest.raises(TypeError, match=r"no option 'socket_timeout': what is for the connection belongs in the URL"):
        face.from_url("redis://localhost:1", socket_timeout=1)


@pytest.mark.parametrize("face", [Counters, AsyncioCounters])
def test_a_class_of_the_callers_may_pass_options_on(face: type[Counters | AsyncioCounters]) -> None:
    class Ours(face):  # type: ignore[misc, valid-type]
        def __init__(self, client: Any, **options: Any) -> None:
            super().__init__(client, **options)

    counters = Ours.from_url("redis://localhost:1", namespace="ours")
    assert counters._core.settings.namespace == b"ours"
    with pytest.raises(TypeError, match="flush_intervall"):
        Ours.from_url("redis://localhost:1", flush_intervall=1)


@pytest.mark.parametrize("name", ["", "E U", "eu=1", "r" * 65, "é"])
@pytest.mark.parametrize("face", [Counters, AsyncioCounters])
def test_a_region_that_no_exchange_could_name_is_refused(face: type[Counters | AsyncioCounters], name: str) -> None:
    """Recorded by the first client that counts, it would keep this Redis from taking part for good."""
    with pytest.raises(UsageError, match="a region's name must be 1 to 64 of"):
        face.from_url("redis://localhost:1", region=name)


def test_options_of_a_cluster_are_known() -> None:
    """What a connection takes, and what the client of a cluster does."""
    Counters.from_url("redis+cluster://localhost:1?socket_timeout=3&read_from_replicas=yes").close(timeout=0)


@pytest.mark.parametrize("form", ["CERT_NONE", "none", "CERT_REQUIRED", "CERT_OPTIONAL"])
@pytest.mark.parametrize("scheme", ["rediss", "valkeys", "rediss+cluster", "rediss+sentinel"])
@pytest.mark.parametrize("face", [Counters, AsyncioCounters])
def test_certificates_as_celery_writes_it(face: type[Counters | AsyncioCounters], scheme: str, form: str) -> None:
    """A URL of Celery's is accepted: ``ssl_cert_reqs=CERT_NONE`` is what redis-py calls ``none``."""
    path = "/primary/0" if scheme.endswith("sentinel") else ""
    counters = face.from_url(f"{scheme}://localhost:6379{path}?ssl_cert_reqs={form}&ssl_check_hostname=no")
    client = counters._runner.transport.client if not scheme.endswith("cluster") else None  # type: ignore[union-attr]
    if client is not None:
        wanted = form.removeprefix("CERT_").lower()
        assert client.connection_pool.connection_kwargs["ssl_cert_reqs"] == wanted


@pytest.mark.parametrize("form", ["CERT_SOME", "cert_none", "NONE"])
def test_other_words_for_certificates_are_refused(form: str) -> None:
    """What neither redis-py nor Celery knows is refused, as before."""
    with pytest.raises(UsageError):
        Counters.from_url(f"rediss://localhost:6379?ssl_cert_reqs={form}")


@pytest.mark.parametrize("face", [Counters, AsyncioCounters])
def test_what_was_started_for_a_wrong_option_is_stopped(face: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a whole server (embedded://)."""
    stopped: list[str] = []

    def opening(url: str, *, asyncio: bool) -> urls.Opened:
        return urls.Opened(redis.asyncio.Redis() if asyncio else redis.Redis(), lambda: stopped.append(url))

    monkeypatch.setattr(urls, "open_url", opening)
    with pytest.raises(UsageError, match="shards"):
        face.from_url("embedded://", shards=0)
    assert stopped == ["embedded://"]
