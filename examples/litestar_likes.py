"""A like button with Litestar: `uvicorn litestar_likes:app`, with REDIS_COUNTERS_URL if Redis is not on localhost."""

import asyncio
import secrets
from typing import Any

from litestar import Litestar, MediaType, Request, Response, get, post
from litestar.datastructures import Cookie
from litestar.exceptions import NotAuthorizedException, NotFoundException
from litestar.params import FromCookie, FromPath
from litestar.response import Redirect

from redis_counters.contrib.litestar import AppCounters, CountersPlugin, idempotency_key

POSTS = {1: "Tides", 2: "Bees", 3: "Bread"}


def current_user(user: str | None) -> str:
    """Your login goes here. In this example each browser is a user: the page gives it a cookie."""
    if not user:
        raise NotAuthorizedException("Open the page first.")
    return user


def known_post(number: int) -> str:
    """The counter of a post. No name of a counter is taken from the browser unchecked."""
    if number not in POSTS:
        raise NotFoundException("There is no such post.")
    return f"post:{number}"


@get("/", media_type=MediaType.HTML)
async def page(counters: AppCounters, user: FromCookie[str | None] = None) -> Response[str]:
    counters.incr("views")  # no await: it does no I/O
    user = user or secrets.token_urlsafe(16)
    names = [f"post:{number}" for number in POSTS]
    likes = await counters.get_many(names, max_age=0)
    mine = await asyncio.gather(*(counters.likes(name).has(user) for name in names))
    rows = []
    for (number, title), name, liked in zip(POSTS.items(), names, mine, strict=True):
        action = "unlike" if liked else "like"
        unit = "like" if likes[name] == 1 else "likes"
        rows.append(
            f'<form method="post" action="/posts/{number}/{action}">{title}: {likes[name]} {unit} '
            f"<button>{action.title()}</button></form>"
        )
    cookie = Cookie(key="user", value=user, httponly=True, samesite="lax")
    return Response(f"<h1>Posts</h1>{''.join(rows)}", cookies=[cookie])


@post("/posts/{number:int}/like", status_code=303)
async def like(number: FromPath[int], counters: AppCounters, user: FromCookie[str | None] = None) -> Redirect:
    await counters.likes(known_post(number)).like(current_user(user))
    return Redirect("/", status_code=303)


@post("/posts/{number:int}/unlike", status_code=303)
async def unlike(number: FromPath[int], counters: AppCounters, user: FromCookie[str | None] = None) -> Redirect:
    await counters.likes(known_post(number)).unlike(current_user(user))
    return Redirect("/", status_code=303)


@post("/posts/{number:int}/shares", status_code=200)
async def share(
    number: FromPath[int], counters: AppCounters, request: Request[Any, Any, Any], user: FromCookie[str | None] = None
) -> dict[str, int]:
    name = f"shares:{known_post(number)}"
    await counters.incr_once(name, idempotency_key(request, current_user(user)))  # once, also if it is sent again
    return {"shares": await counters.get(name)}


app = Litestar([page, like, unlike, share], plugins=[CountersPlugin()])
