"""The application: a page, two kinds of settings, a stream of the counts.

Requests say how something is to be, never "the other way round", so any of them may be sent twice. Each has two
answers: a page, or a redirect to it, for browsers; JSON for the page's script, which asks for it.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl

import jinja2
import redis
import redis.asyncio
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from redis_counters.asyncio import Counters
from redis_counters.demo.web import posts
from redis_counters.demo.web.board import SWITCHES, Board, Facts
from redis_counters.demo.web.clicks import Plain, click, repeated
from redis_counters.demo.web.guard import Guard
from redis_counters.demo.web.live import Live, Shown
from redis_counters.demo.web.pictures import picture
from redis_counters.demo.web.posts import COUNTERS, NAMESPACE, POSTS, Post
from redis_counters.demo.web.settings import Settings
from redis_counters.demo.web.visitors import COOKIE, Visitors
from redis_counters.errors import Unavailable

_HERE = Path(__file__).parent
_LARGEST_BODY = 1024
_YEAR = 365 * 86400
_AWAY = "Redis does not answer at the moment. Nothing is lost; try again."

router = APIRouter()
templates = jinja2.Environment(loader=jinja2.FileSystemLoader(_HERE / "templates"), autoescape=True)
templates.filters["thousands"] = "{:,}".format
templates.filters["signed"] = "{:+,}".format


@dataclass(frozen=True)
class Demo:
    """The parts that a request uses."""

    counters: Counters
    plain: Plain
    board: Board
    visitors: Visitors
    live: Live


def make_app(settings: Settings, ending: Callable[[], bool] = lambda: False) -> ASGIApp:
    """Return the application. ``ending`` becomes true when the server stops: then streams end by themselves."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        aside = redis.asyncio.Redis.from_url(settings.aside, decode_responses=True, socket_timeout=5)
        plain = Plain(settings.counting, connections=4)
        board = Board(aside)
        try:
            async with Counters.from_url(settings.counting, namespace=NAMESPACE, actor="web") as counters:
                live = Live(_Reader(counters, board).read, ending, os.getpid())
                app.state.demo = Demo(counters, plain, board, Visitors(settings.secret.encode()), live)
                try:
                    yield
                finally:
                    await live.close()
        finally:
            await plain.close()
            await aside.aclose()

    # No pages about the application: they load scripts from elsewhere, and this is no programming interface.
    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=_HERE / "static"), name="static")
    app.add_exception_handler(HTTPException, _problem)
    for away in (Unavailable, redis.RedisError):
        app.add_exception_handler(away, _unavailable)
    return Guard(app, settings.host)


class _Reader:
    """Reads the numbers of the page, and remembers the last."""

    def __init__(self, counters: Counters, board: Board) -> None:
        self._counters, self._board = counters, board
        self._last = Shown((0,) * len(POSTS), Facts())

    async def read(self) -> Shown:
        """Return the numbers of now, or the last that are known."""
        try:
            self._last = await shown(self._counters, self._board)
        except (Unavailable, redis.RedisError):
            return replace(self._last, stale=True)
        return self._last


async def shown(counters: Counters, board: Board) -> Shown:
    """Return the numbers of now. Raises: Unavailable, redis.RedisError."""
    values, facts = await asyncio.gather(
        repeated(lambda: counters.get_many(COUNTERS, max_age=0)),
        board.facts(),
    )
    return Shown(tuple(int(values[name]) for name in COUNTERS), facts)


# What requests bring, checked:


def demo_of(request: Request) -> Demo:
    """Return the parts of this application."""
    demo: Demo = request.app.state.demo
    return demo


def visitor(request: Request) -> str | None:
    """Return the user of the request's cookie, None without one that was made here."""
    return demo_of(request).visitors.user(request.cookies.get(COOKIE))


def known_visitor(user: Annotated[str | None, Depends(visitor)]) -> str:
    """As `visitor`, for actions that need one."""
    if user is None:
        raise HTTPException(
            403, "Load the page first, or again: it gives your browser the cookie that is missing here."
        )
    return user


def known_post(number: str) -> Post:
    """Return the post of the path."""
    post = posts.find(number)
    if post is None:
        raise HTTPException(404, f"There is no such post. They are numbered from 1 to {len(POSTS)}.")
    return post


async def form(request: Request) -> dict[str, str]:
    """Return the fields of a small form, each given once."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "Send the fields of a form, as application/x-www-form-urlencoded.")
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > _LARGEST_BODY:
                raise HTTPException(413, f"A form of this page has no more than {_LARGEST_BODY} bytes.")
    except ClientDisconnect:  # the browser is gone; else it would be logged as a fault of the page
        raise HTTPException(400, "This form has ended too early.") from None
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, strict_parsing=True, max_num_fields=8)
    except ValueError:
        raise HTTPException(400, "This is not a form, or one with too many fields.") from None
    if len(dict(pairs)) != len(pairs):
        raise HTTPException(400, "Give each field once.")
    return dict(pairs)


def _yes_or_no(fields: dict[str, str], name: str) -> bool:
    if fields.keys() != {name} or fields[name] not in ("yes", "no"):
        raise HTTPException(400, f"Give the field '{name}', as yes or no, and nothing else.")
    return fields[name] == "yes"


def _number(text: str | None) -> int | None:
    if text is not None and not re.fullmatch("[1-9][0-9]{0,14}", text):
        raise HTTPException(400, "The number of a click is written with 1 to 15 digits.")
    return None if text is None else int(text)


_Demo = Annotated[Demo, Depends(demo_of)]
_Visitor = Annotated[str | None, Depends(visitor)]
_KnownVisitor = Annotated[str, Depends(known_visitor)]
_Post = Annotated[Post, Depends(known_post)]
_Form = Annotated[dict[str, str], Depends(form)]


# What there is:


@router.get("/")
async def page(request: Request, demo: _Demo, user: _Visitor) -> Response:
    """The page, whole without any script."""
    mine, numbers = await _liked(demo, user), await demo.board.numbers(user) if user else {}
    now = await shown(demo.counters, demo.board)
    wanted = await demo.board.switches()
    text = templates.get_template("page.html").render(
        posts=POSTS, likes=now.likes, mine=mine, numbers=numbers, facts=now.facts, wanted=wanted, worker=os.getpid()
    )
    response = HTMLResponse(text)
    if user is None:
        response.set_cookie(
            COOKIE,
            demo.visitors.new(),
            max_age=_YEAR,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
    return response


@router.get("/state")
async def state(demo: _Demo, user: _Visitor) -> Response:
    """Everything that the page shows: to begin with, after an interruption, and where streams do not get through."""
    # Counts are read last: so they contain the visitor's own likes.
    mine, numbers = await _liked(demo, user), await demo.board.numbers(user) if user else {}
    now = await shown(demo.counters, demo.board)
    wanted, history = await demo.board.switches(), await demo.board.history()
    more = {
        "mine": sorted(mine),
        "numbers": numbers,
        "wanted": wanted,
        "history": history,
        "now": time.time(),
        "worker": os.getpid(),
    }
    return JSONResponse(now.as_json(**more))


@router.get("/events")
async def events(demo: _Demo) -> Response:
    """The counts, as they change: server-sent events. They contain nothing about users."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(demo.live.stream(), media_type="text/event-stream", headers=headers)


@router.get("/pictures/{number}.svg")
async def landscape(post: _Post) -> Response:
    """The landscape above a post."""
    return Response(picture(post.number), media_type="image/svg+xml", headers={"cache-control": "max-age=86400"})


@router.post("/posts/{number}/like")
async def like(request: Request, demo: _Demo, user: _KnownVisitor, post: _Post, fields: _Form) -> Response:
    """The visitor likes the post, or not."""
    number = _number(fields.pop("number", None))
    liked = _yes_or_no(fields, "liked")
    clicked = await click(demo.counters, demo.plain, demo.board, user, post, liked, number)
    if _wants_json(request):
        return JSONResponse(asdict(clicked))
    return RedirectResponse(f"/#post-{post.number}", status_code=303)


@router.post("/switches/{name}", dependencies=[Depends(known_visitor)])
async def switch(request: Request, demo: _Demo, name: str, fields: _Form) -> Response:
    """The crowd, or the loss of replies, is switched on or off; the last request wins."""
    if name not in SWITCHES:
        raise HTTPException(404, f"There is no such switch. There are: {', '.join(SWITCHES)}.")
    on = _yes_or_no(fields, "on")
    await demo.board.switch(name, on)
    if _wants_json(request):
        return JSONResponse({"on": on})
    return RedirectResponse("/", status_code=303)


async def _liked(demo: Demo, user: str | None) -> set[int]:
    """Return the numbers of the posts that the visitor likes: one round trip for all, their calls share a script."""
    if user is None:
        return set()

    async def likes(post: Post) -> bool:
        return await repeated(lambda: demo.counters.likes(post.counter).has(user))

    liked = await asyncio.gather(*map(likes, POSTS))
    return {post.number for post, does in zip(POSTS, liked, strict=True) if does}


# What went wrong:


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def _say(request: Request, status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    if _wants_json(request):
        return JSONResponse({"error": sentence}, status, headers)
    text = templates.get_template("problem.html").render(sentence=sentence)
    return HTMLResponse(text, status, headers)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentences = {404: "There is nothing here.", 405: "That cannot be done here."}
    sentence = error.detail if error.detail[-1:] == "." else sentences.get(error.status_code, "That is not possible.")
    return _say(request, error.status_code, sentence, dict(error.headers or {}))


async def _unavailable(request: Request, _error: Exception) -> Response:
    return _say(request, 503, _AWAY, {"retry-after": "1"})
