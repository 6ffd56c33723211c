"""Starlette, FastAPI and Litestar: the application's counters in requests, sockets, threads, mounted applications."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import litestar
import litestar.testing
import pytest
from fastapi import Depends, FastAPI, Request, WebSocket
from fastapi.testclient import TestClient
from litestar import Litestar
from litestar.config.app import AppConfig
from litestar.exceptions import WebSocketDisconnect
from litestar.params import FromPath
from starlette.applications import Starlette
from starlette.responses import Response

import redis_counters.asyncio
from redis_counters import Counters, KeyConflict, Overflow, Refused, Unavailable, UsageError
from redis_counters.contrib import fastapi, starlette
from redis_counters.contrib.idempotency import scoped
from redis_counters.contrib.litestar import AppCounters, CountersPlugin, idempotency_key
from redis_counters.testing import LossyLink
from tests.contrib.apps import asgi
from tests.faces.either import truth
from tests.servers import RealServer

ERRORS = [
    (Unavailable("x"), 503, "Counting is not possible at the moment. Please try again."),
    (UsageError("user must not", argument="user"), 400, "This is not accepted: user must not."),
    (KeyConflict("x"), 422, "This key was used before, with another amount. Nothing was counted."),
    (Overflow("x"), 400, "The number is too large. Nothing was counted."),
]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, any_server: RealServer) -> None:
    """Looked up when an application starts, not when its module was imported."""
    monkeypatch.setenv("REDIS_COUNTERS_URL", any_server.url)


@pytest.mark.parametrize("name", asgi.applications)
def test_it_counts_and_delivers_at_its_end(name: str, any_server: RealServer) -> None:
    """Started again, the same application has new counters."""
    make = litestar.testing.TestClient if name == "litestar" else TestClient
    for _ in range(2):
        with make(asgi.applications[name]) as client:
            for _ in range(3):
                assert client.get("/").status_code == 200
    assert truth(any_server, ["requests", "amounts"]) == {b"requests": 6, b"amounts": 18}


def test_a_mounted_application_has_those_of_the_one_around_it(any_server: RealServer) -> None:
    with TestClient(asgi.starlette_app) as client:
        assert client.get("/within/").status_code == 200
    assert truth(any_server, ["requests"]) == {b"requests": 1}


def test_a_handler_in_a_thread_counts(any_server: RealServer) -> None:
    with TestClient(asgi.fastapi_app) as client:
        for _ in range(20):
            assert client.get("/thread").status_code == 200
    assert truth(any_server, ["threads"]) == {b"threads": 20}


@pytest.mark.parametrize("path", ["/", "/thread"])
def test_without_a_lifespan_the_program_is_wrong(path: str) -> None:
    """That is no fault of the request's sender: an error 500, with a hint for the author of the test."""
    with pytest.raises(RuntimeError, match="with TestClient"):
        TestClient(asgi.fastapi_app).get(path)


def fast(**options: Any) -> FastAPI:
    app = FastAPI(lifespan=fastapi.lifespan(**options), exception_handlers=fastapi.ERROR_HANDLERS)

    @app.get("/errors/{number}")
    async def errors(number: int, counters: fastapi.AppCounters) -> None:
        raise ERRORS[number][0]

    @app.websocket("/socket")
    async def socket(websocket: WebSocket, counters: fastapi.AppCounters) -> None:
        await websocket.accept()
        counters.incr("sockets")
        await websocket.send_text(str(await counters.get("sockets")))
        await websocket.close()

    @app.websocket("/fails")
    async def fails(websocket: WebSocket) -> None:
        await websocket.accept()
        raise Unavailable("x")

    @app.get("/likes")
    async def likes(counters: fastapi.AppCounters) -> int:
        return await counters.likes("post").value(max_age=0)

    return app


def test_a_web_socket() -> None:
    with TestClient(fast()) as client, client.websocket_connect("/socket") as socket:
        assert socket.receive_text() == "1"


def test_an_error_in_a_web_socket_ends_it() -> None:
    """There is no answer to give, and the other side does not wait."""
    with TestClient(fast()) as client, pytest.raises(Unavailable), client.websocket_connect("/fails") as socket:
        socket.receive_text()


def test_an_error_in_a_web_socket_of_litestar_ends_it() -> None:
    @litestar.websocket("/")
    async def fails(socket: litestar.WebSocket[Any, Any, Any], counters: AppCounters) -> None:
        await socket.accept()
        counters.incr("sockets")
        await socket.send_text(str(await counters.get("sockets")))
        raise Unavailable("x")

    app = Litestar([fails], logging_config=None, plugins=[CountersPlugin()])
    with litestar.testing.TestClient(app) as client, client.websocket_connect("/") as socket:
        assert socket.receive_text() == "1"
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()


def test_two_in_one_application() -> None:
    """The inner one's end leaves the outer one's in place, and both end."""

    async def main() -> None:
        app = FastAPI()
        async with starlette.counting(app, "memory://") as outer:
            async with starlette.counting(app, "memory://") as inner:
                assert app.state.redis_counters is inner["redis_counters"]
            assert app.state.redis_counters is outer["redis_counters"]
            app.state.redis_counters.incr("x")
        assert not hasattr(app.state, "redis_counters")

    asyncio.run(main())


def test_two_in_one_application_of_litestar(any_server: RealServer) -> None:
    """Litestar's own start leaks when it is entered twice, so this enters what the plugin adds to it."""

    async def main() -> None:
        app = Litestar()
        start: Any = CountersPlugin().on_app_init(AppConfig()).lifespan[-1]
        async with start(app):
            outer = app.state.redis_counters
            async with start(app):
                app.state.redis_counters.incr("x")
                assert app.state.redis_counters is not outer
            assert app.state.redis_counters is outer
            outer.incr("x")
        assert "redis_counters" not in app.state

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 2}


def test_options_and_url() -> None:
    app = fast(url="memory://fastapi", namespace="shop")
    with TestClient(app) as client, client.websocket_connect("/socket") as socket:
        assert socket.receive_text() == "1"
    with Counters.from_url("memory://fastapi", namespace="shop") as other:
        assert other.get("sockets") == 1


def test_wrong_options_stop_the_start() -> None:
    with pytest.raises(UsageError, match="max_age"), TestClient(fast(max_age=-1)):
        pass


def test_a_test_puts_its_own_counters_in_place() -> None:
    """As the fixture `async_counters` is used; the lifespan need not run then."""
    app = fast()
    own = redis_counters.asyncio.Counters.from_url("memory://override")
    with Counters.from_url("memory://override") as seen:
        seen.likes("post").like("ann")
        app.dependency_overrides[fastapi.get_counters] = lambda: own
        with TestClient(app) as client:
            assert client.get("/likes").json() == 1
            assert client.portal is not None
            client.portal.call(own.close)


def test_lifespans_of_others_run_too(any_server: RealServer) -> None:
    """One of one's own around it; and the state that it yields is there."""
    seen: list[str] = []

    @asynccontextmanager
    async def own(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        async with fastapi.counting(app) as state:
            seen.append("begin")
            yield {**state, "own": 1}
            seen.append("end")

    app = FastAPI(lifespan=own)

    @app.get("/")
    async def root(request: Request, counters: fastapi.AppCounters) -> int:
        counters.incr("x")
        return int(request.state.own)

    with TestClient(app) as client:
        assert client.get("/").json() == 1
    assert seen == ["begin", "end"]
    assert truth(any_server, ["x"]) == {b"x": 1}


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors_are_answered_by_fastapi(number: int) -> None:
    _error, status, sentence = ERRORS[number]
    with TestClient(fast()) as client:
        answer = client.get(f"/errors/{number}")
        assert (answer.status_code, answer.json()) == (status, {"detail": sentence})
        assert answer.headers.get("Retry-After") == ("1" if status == 503 else None)


@pytest.mark.parametrize("error", [Refused("x"), UsageError("this client is closed")])
@pytest.mark.parametrize("name", ["starlette", "litestar"])
def test_mistakes_of_the_program_are_not_answered(name: str, error: Exception) -> None:
    """They are an error 500, as any other."""

    async def fails(_request: Request) -> Response:
        raise error

    @litestar.get("/", sync_to_thread=False)
    def fails_too() -> None:
        raise error

    app = Starlette(exception_handlers=starlette.ERROR_HANDLERS)
    app.add_route("/", fails)
    if name == "starlette":
        assert TestClient(app, raise_server_exceptions=False).get("/").status_code == 500
        return
    other = Litestar([fails_too], logging_config=None, plugins=[CountersPlugin()])
    with litestar.testing.TestClient(other, raise_server_exceptions=False) as client:
        assert client.get("/").status_code == 500


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors_are_answered_by_starlette(number: int) -> None:
    error, status, sentence = ERRORS[number]

    async def fails(_request: Request) -> Response:
        raise error

    app = Starlette(exception_handlers=starlette.ERROR_HANDLERS)
    app.add_route("/", fails)
    answer = TestClient(app).get("/")
    assert (answer.status_code, answer.text) == (status, sentence)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors_are_answered_by_litestar(number: int) -> None:
    error, status, sentence = ERRORS[number]

    @litestar.get("/", sync_to_thread=False)
    def fails() -> None:
        raise error

    with litestar.testing.TestClient(Litestar([fails], logging_config=None, plugins=[CountersPlugin()])) as client:
        answer = client.get("/")
        assert (answer.status_code, answer.json()["detail"]) == (status, sentence)
        assert answer.headers.get("Retry-After") == ("1" if status == 503 else None)


def test_litestar_keeps_handlers_of_the_application() -> None:
    @litestar.get("/", sync_to_thread=False)
    def fails() -> None:
        raise KeyConflict("x")

    def own(_request: Any, _error: Exception) -> litestar.Response[str]:
        return litestar.Response("mine", status_code=418)

    app = Litestar([fails], logging_config=None, plugins=[CountersPlugin()], exception_handlers={KeyConflict: own})
    with litestar.testing.TestClient(app) as client:
        assert client.get("/").status_code == 418


async def user_of(user: str | None = None) -> str | None:
    return user


def keyed_fastapi(user: Callable[..., Any] | None) -> TestClient:
    app = FastAPI()
    found: Any = Depends(fastapi.idempotency_key(user))

    @app.post("/{_rest:path}")
    @app.put("/{_rest:path}", operation_id="put")
    async def view(key: str = found) -> str:
        return key

    return TestClient(app)


@pytest.mark.parametrize("user", [user_of, None])
def test_the_key_of_fastapi(user: Callable[..., Any] | None) -> None:
    """Of the user that a dependency tells, if there is one; of method and path; not of the query."""
    client, headers = keyed_fastapi(user), {"Idempotency-Key": "k"}
    ann = client.post("/a?user=ann", headers=headers).json()
    assert ann == scoped("k", "POST", "/a", user and "ann")
    assert client.post("/a?user=ann&x=1", headers=headers).json() == ann
    assert (client.post("/a?user=bob", headers=headers).json() == ann) == (user is None)
    assert client.post("/b?user=ann", headers=headers).json() != ann
    assert client.put("/a?user=ann", headers=headers).json() != ann
    if user is not None:
        assert client.post("/a?user=", headers=headers).status_code == 400
    answer = client.post("/a")
    assert (answer.status_code, "is missing" in answer.json()["detail"]) == (400, True)
    parameters = client.get("/openapi.json").json()["paths"]["/{_rest}"]["post"]["parameters"]
    assert "Idempotency-Key" in [each["name"] for each in parameters]


def test_the_key_of_litestar() -> None:
    @litestar.post("/{rest:str}", status_code=200, sync_to_thread=False)
    def view(rest: FromPath[str], request: litestar.Request[Any, Any, Any]) -> str:
        return idempotency_key(request, "ann")

    with litestar.testing.TestClient(Litestar([view], logging_config=None)) as client:
        key = client.post("/a", headers={"Idempotency-Key": "k"}).text
        assert key == scoped("k", "POST", "/a", "ann")
        assert client.post("/a", headers={"Idempotency-Key": '"k"'}).text == key
        assert client.post("/b", headers={"Idempotency-Key": "k"}).text != key
        assert client.post("/a").status_code == 400


@pytest.mark.parametrize("name", ["starlette", "litestar"])
def test_what_is_lost_at_the_end_is_logged(name: str, any_server: RealServer, caplog: Any) -> None:
    """The application has ended without an error, within its time."""
    make: Any = litestar.testing.TestClient if name == "litestar" else TestClient
    with LossyLink(any_server.url) as link:
        if name == "litestar":
            plugin = CountersPlugin(link.url, close_timeout=0.2, flush_interval=30)
            app: Any = Litestar([asgi.litestar_root], logging_config=None, plugins=[plugin])
        else:
            app = Starlette(
                routes=asgi.starlette_app.routes,
                lifespan=starlette.lifespan(link.url, close_timeout=0.2, flush_interval=30),
            )
        with caplog.at_level(logging.ERROR, "redis_counters"), make(app) as client:
            assert client.get("/").status_code == 200
            link.stop()
    assert "'requests': 1" in caplog.text
    assert "'amounts': 3" in caplog.text
