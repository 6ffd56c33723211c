"""A like button with FastAPI: `uvicorn fastapi_likes:app`, with REDIS_COUNTERS_URL if Redis is not on localhost."""

import asyncio
import secrets
from typing import Annotated

from fastapi import Cookie, Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse, RedirectResponse

from redis_counters.contrib.fastapi import ERROR_HANDLERS, AppCounters, idempotency_key, lifespan

POSTS = {1: "Tides", 2: "Bees", 3: "Bread"}

app = FastAPI(lifespan=lifespan(), exception_handlers=ERROR_HANDLERS)


def current_user(user: Annotated[str | None, Cookie()] = None) -> str:
    """Your login goes here. In this example each browser is a user: the page gives it a cookie."""
    if not user:
        raise HTTPException(401, "Open the page first.")
    return user


def known_post(post: int) -> str:
    """The counter of a post. No name of a counter is taken from the browser unchecked."""
    if post not in POSTS:
        raise HTTPException(404, "There is no such post.")
    return f"post:{post}"


User = Annotated[str, Depends(current_user)]
Post = Annotated[str, Depends(known_post)]
Key = Annotated[str, Depends(idempotency_key(current_user))]


@app.get("/")
async def page(counters: AppCounters, user: Annotated[str | None, Cookie()] = None) -> HTMLResponse:
    counters.incr("views")  # no await: it does no I/O
    user = user or secrets.token_urlsafe(16)
    names = [f"post:{post}" for post in POSTS]
    likes = await counters.get_many(names, max_age=0)
    mine = await asyncio.gather(*(counters.likes(name).has(user) for name in names))
    rows = []
    for (post, title), name, liked in zip(POSTS.items(), names, mine, strict=True):
        action = "unlike" if liked else "like"
        unit = "like" if likes[name] == 1 else "likes"
        rows.append(
            f'<form method="post" action="/posts/{post}/{action}">{title}: {likes[name]} {unit} '
            f"<button>{action.title()}</button></form>"
        )
    response = HTMLResponse(f"<h1>Posts</h1>{''.join(rows)}")
    response.set_cookie("user", user, httponly=True, samesite="lax")
    return response


@app.post("/posts/{post}/like")
async def like(post: Post, user: User, counters: AppCounters) -> RedirectResponse:
    await counters.likes(post).like(user)
    return RedirectResponse("/", 303)


@app.post("/posts/{post}/unlike")
async def unlike(post: Post, user: User, counters: AppCounters) -> RedirectResponse:
    await counters.likes(post).unlike(user)
    return RedirectResponse("/", 303)


@app.post("/posts/{post}/shares")
async def share(post: Post, key: Key, counters: AppCounters) -> dict[str, int]:
    await counters.incr_once(f"shares:{post}", key)  # a request that is sent again counts nothing
    return {"shares": await counters.get(f"shares:{post}")}
