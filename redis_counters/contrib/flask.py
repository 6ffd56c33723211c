"""Flask: an extension, one client per application.

counters = FlaskCounters()

def create_app():
    app = Flask(__name__)
    counters.init_app(app)

counters.incr("views")  # in a view
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from flask import Flask, Response, current_app, has_app_context, request
from werkzeug.exceptions import BadRequest

from redis_counters._blocking.counters import Counters
from redis_counters.contrib.http_errors import ANSWERED, answer
from redis_counters.contrib.idempotency import HEADER, BadKeyError, header_key, scoped
from redis_counters.contrib.proxy import Forwarding
from redis_counters.contrib.url_config import opened
from redis_counters.errors import CounterError, UsageError
from redis_counters.protocol.keyed.calls import User
from redis_counters.protocol.wire.options import OptionsAndUrl

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["FlaskCounters", "idempotency_key"]

_EXTENSION = "redis_counters"


class FlaskCounters(Forwarding):
    """The counters of the current application, with all methods of `Counters`.

    Settings of the application: ``REDIS_COUNTERS_URL``, by default that of the environment variable of this name, and
    ``REDIS_COUNTERS_OPTIONS``, a dict of options of `Counters`; ``options`` given here come before them. Nothing is
    sent, and no thread is started, before something counts: so it works with servers that fork, preloaded or not.
    Counts that are pending when the process ends are flushed then, or their loss is logged.
    """

    def __init__(
        self, app: Flask | None = None, *, handle_errors: bool = True, **options: Unpack[OptionsAndUrl]
    ) -> None:
        self._handle_errors = handle_errors
        self._options = options
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Give the application counters, and let it answer their errors by 400, 422 or 503, each with a sentence.

        Its own handlers of these errors stay. Raises: UsageError, TypeError for its settings.
        """
        if _EXTENSION in app.extensions:
            raise UsageError("this application has counters already: init_app was called twice")
        options = {**app.config.get("REDIS_COUNTERS_OPTIONS", {}), **self._options}
        url = options.pop("url", None) or app.config.get("REDIS_COUNTERS_URL")
        app.extensions[_EXTENSION] = opened(Counters.from_url, url, options)
        if self._handle_errors:
            taken = app.error_handler_spec[None][None]
            for kind in ANSWERED:
                if kind not in taken:
                    app.register_error_handler(kind, _respond)

    def _current(self) -> Counters:
        if not has_app_context():
            raise RuntimeError("counters of Flask are those of the current application: use `with app.app_context()`")
        found = current_app.extensions.get(_EXTENSION)
        if found is None:
            raise RuntimeError(f"the application {current_app.name!r} has no counters: call init_app(app)")
        return cast(Counters, found)


def idempotency_key(user: User | None) -> str:
    """Return the key for `incr_once`: the request's Idempotency-Key, within its method, path and user.

    ``user``: the id of the sender, by your authentication; None if there are no users, then all share their keys.
    Raises: BadRequest, status 400 with a sentence, for a header that is missing or malformed, or no user id.
    """
    path = request.root_path + request.path
    try:
        return scoped(header_key(request.headers.getlist(HEADER)), request.method, path, user)
    except (BadKeyError, UsageError) as error:
        raise BadRequest(str(error)) from None


def _respond(error: Exception) -> Response:
    found = answer(cast(CounterError, error))
    if found is None:
        raise error  # as if there were no handler
    return Response(found.sentence, found.status, dict(found.headers), mimetype="text/plain")
