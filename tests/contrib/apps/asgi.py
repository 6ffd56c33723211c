"""Starlette, FastAPI and Litestar, whose clients flush by themselves only long after the test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import litestar
from fastapi import FastAPI
from litestar import Litestar
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from redis_counters.asyncio import Counters
from redis_counters.contrib import fastapi, starlette
from redis_counters.contrib.litestar import AppCounters, CountersPlugin

INTERVAL = 30.0
CLOSE = {"Connection": "close"}


async def count(counters: Counters) -> str:
    counters.incr("requests")
    counters.incr("amounts", 3)
    assert await counters.get("requests") >= 1
    return str(os.getpid())


async def counted(request: Request) -> Response:
    return PlainTextResponse(await count(starlette.counters_of(request)), headers=CLOSE)


starlette_app = Starlette(
    routes=[Mount("/within", Starlette(routes=[Route("/", counted)])), Route("/", counted)],
    lifespan=starlette.lifespan(flush_interval=INTERVAL),
    exception_handlers=starlette.ERROR_HANDLERS,
)


@asynccontextmanager
async def own(app: FastAPI) -> AsyncIterator[None]:
    async with starlette.counting(app, flush_interval=INTERVAL):
        yield


fastapi_app = FastAPI(lifespan=own, exception_handlers=fastapi.ERROR_HANDLERS)


@fastapi_app.get("/")
async def in_the_loop(counters: fastapi.AppCounters) -> Response:
    return PlainTextResponse(await count(counters), headers=CLOSE)


@fastapi_app.get("/thread")
def in_a_thread(counters: fastapi.AppCounters) -> str:
    counters.incr("threads")
    return str(os.getpid())


@litestar.get("/", sync_to_thread=False)
def litestar_root(counters: AppCounters) -> litestar.Response[str]:
    counters.incr("requests")
    counters.incr("amounts", 3)
    return litestar.Response(str(os.getpid()), headers=CLOSE, media_type="text/plain")


litestar_app = Litestar([litestar_root], logging_config=None, plugins=[CountersPlugin(flush_interval=INTERVAL)])

applications: dict[str, Any] = {"starlette": starlette_app, "fastapi": fastapi_app, "litestar": litestar_app}
