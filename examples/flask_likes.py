"""A like button with Flask: `flask --app flask_likes run`, with REDIS_COUNTERS_URL if Redis is not on localhost."""

import secrets

from flask import Blueprint, Flask, abort, make_response, redirect, render_template_string, request
from werkzeug.wrappers import Response

from redis_counters import exit_on_sigterm
from redis_counters.contrib.flask import FlaskCounters, idempotency_key

POSTS = {1: "Tides", 2: "Bees", 3: "Bread"}

PAGE = """
<h1>Posts</h1>
{% for post, title, likes, action in rows %}
<form method="post" action="/posts/{{ post }}/{{ action }}">{{ title }}: {{ likes }} like{{ 's' if likes != 1 }}
<button>{{ action.title() }}</button></form>
{% endfor %}
"""

counters = FlaskCounters()
views = Blueprint("likes", __name__)


def current_user() -> str:
    """Your login goes here. In this example each browser is a user: the page gives it a cookie."""
    return request.cookies.get("user") or abort(401, "Open the page first.")


def known_post(post: int) -> str:
    """The counter of a post. No name of a counter is taken from the browser unchecked."""
    return f"post:{post}" if post in POSTS else abort(404, "There is no such post.")


@views.get("/")
def page() -> Response:
    counters.incr("views")  # no I/O
    user = request.cookies.get("user") or secrets.token_urlsafe(16)
    likes = counters.get_many([f"post:{post}" for post in POSTS], max_age=0)
    liked = {post for post in POSTS if counters.likes(f"post:{post}").has(user)}
    rows = [(post, POSTS[post], likes[f"post:{post}"], "unlike" if post in liked else "like") for post in POSTS]
    response = make_response(render_template_string(PAGE, rows=rows))
    response.set_cookie("user", user, httponly=True, samesite="Lax")
    return response


@views.post("/posts/<int:post>/like")
def like(post: int) -> Response:
    counters.likes(known_post(post)).like(current_user())
    return redirect("/", 303)


@views.post("/posts/<int:post>/unlike")
def unlike(post: int) -> Response:
    counters.likes(known_post(post)).unlike(current_user())
    return redirect("/", 303)


@views.post("/posts/<int:post>/shares")
def share(post: int) -> dict[str, int]:
    name = f"shares:{known_post(post)}"
    counters.incr_once(name, idempotency_key(current_user()))  # a request that is sent again counts nothing
    return {"shares": counters.get(name)}


def create_app(**config: object) -> Flask:
    exit_on_sigterm()  # for `flask run`, which has no handler: what was counted just before is delivered
    app = Flask(__name__)
    app.config.update(config)  # REDIS_COUNTERS_URL, by default that of the environment
    counters.init_app(app)
    app.register_blueprint(views)
    return app
