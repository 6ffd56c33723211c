"""A like button with Django, in one file: `python django_likes.py runserver`, or `gunicorn django_likes:application`.

REDIS_COUNTERS_URL says where Redis is, if not on localhost.
"""

import os
import secrets
import sys

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template import engines
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from redis_counters import exit_on_sigterm
from redis_counters.contrib.django import counters, idempotency_key

# settings.py

settings.configure(
    SECRET_KEY=os.environ.get("SECRET_KEY", "of this example"),
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["redis_counters.contrib.django"],
    MIDDLEWARE=[
        "django.middleware.csrf.CsrfViewMiddleware",
        "redis_counters.contrib.django.middleware.CounterErrors",
    ],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
    REDIS_COUNTERS={"OPTIONS": {"flush_interval": 0.1}},  # and "URL", by default that of the environment
)

# views.py

POSTS = {1: "Tides", 2: "Bees", 3: "Bread"}

PAGE = """
{% load redis_counters %}
<h1>Posts</h1>
{% for post, title, name in posts %}
{% liked name user as mine %}
<form method="post" action="/posts/{{ post }}/{% if mine %}unlike{% else %}like{% endif %}">{% csrf_token %}
{% counter name max_age=0 as likes %}
{{ title }}: {{ likes }} like{{ likes|pluralize }} <button>{% if mine %}Unlike{% else %}Like{% endif %}</button></form>
{% endfor %}
"""


def current_user(request: HttpRequest) -> str:
    """Your login goes here, as request.user.pk. In this example each browser is a user, by a cookie of the page."""
    user = request.COOKIES.get("user")
    if not user:
        raise PermissionDenied
    return str(user)


def known_post(post: int) -> str:
    """The counter of a post. No name of a counter is taken from the browser unchecked."""
    if post not in POSTS:
        raise Http404
    return f"post:{post}"


@require_GET
def page(request: HttpRequest) -> HttpResponse:
    counters.incr("views")  # no I/O
    user = request.COOKIES.get("user") or secrets.token_urlsafe(16)
    posts = [(post, title, f"post:{post}") for post, title in POSTS.items()]
    response = HttpResponse(engines["django"].from_string(PAGE).render({"posts": posts, "user": user}, request))
    response.set_cookie("user", user, httponly=True, samesite="Lax")
    return response


@require_POST
def like(request: HttpRequest, post: int) -> HttpResponse:
    counters.likes(known_post(post)).like(current_user(request))
    return HttpResponseRedirect("/")


@require_POST
def unlike(request: HttpRequest, post: int) -> HttpResponse:
    counters.likes(known_post(post)).unlike(current_user(request))
    return HttpResponseRedirect("/")


@csrf_exempt  # a page of another site cannot send the header
@require_POST
def share(request: HttpRequest, post: int) -> HttpResponse:
    name = f"shares:{known_post(post)}"
    counters.incr_once(name, idempotency_key(request, current_user(request)))  # once, also if it is sent again
    return JsonResponse({"shares": counters.get(name)})


# urls.py

urlpatterns = [
    path("", page),
    path("posts/<int:post>/like", like),
    path("posts/<int:post>/unlike", unlike),
    path("posts/<int:post>/shares", share),
]

application = get_wsgi_application()

if __name__ == "__main__":  # manage.py
    exit_on_sigterm()  # for `runserver --noreload`, which has no handler: what was counted just before is delivered
    execute_from_command_line(sys.argv)
