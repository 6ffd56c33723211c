"""What is private to redis-py is used in one module, and is still there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import redis

import redis_counters
from tests.drivers import compat_checks
from tests.servers import RealServer
from tests.topologies import Cluster

PACKAGE = Path(redis_counters.__file__).parent
COMPAT = PACKAGE / "drivers" / "redis_py" / "compat.py"
OF_THREADING = {("after_fork.py", "_lock")}  # Python's own, which redis-py has by chance
REDIS_PY = Path(redis.__file__).parent


def test_redis_py_has_what_is_used_of_it(any_server: RealServer, any_cluster: Cluster) -> None:
    """Each private name, and each parameter that only some versions have, does what `compat` says."""
    compat_checks.check(any_server.url)
    compat_checks.check(any_cluster.url.partition(",")[0])


def test_private_names_of_redis_py_are_used_in_one_module() -> None:
    """No other file takes an attribute from an object that is private to redis-py, by its name."""
    theirs = {name for path in REDIS_PY.rglob("*.py") for name in taken_from(path, of_self=True)}
    found = {path: theirs & set(taken_from(path, of_self=False)) for path in PACKAGE.rglob("*.py")}
    assert {"_sock", "_parser", "_available_connections", "_retries"} <= found.pop(COMPAT)
    assert {(path.name, name) for path, names in found.items() for name in names} == OF_THREADING


def taken_from(path: Path, *, of_self: bool) -> Iterator[str]:
    """Yield the private names that a file takes from ``self``, or that it takes from others and gives to none."""
    tree = ast.parse(path.read_text())
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    own = {each.attr for each in attributes if isinstance(each.value, ast.Name) and each.value.id in ("self", "cls")}
    taken = own if of_self else {each.attr for each in attributes} - own
    if not of_self:
        called = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        by_name = [each.args[1] for each in called if each.func.id in ("getattr", "hasattr", "setattr")]  # type: ignore[attr-defined]
        taken |= {str(name.value) for name in by_name if isinstance(name, ast.Constant)}
        own_functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        taken -= {node.name for node in ast.walk(tree) if isinstance(node, own_functions)}
    yield from (name for name in taken if name.startswith("_") and not name.endswith("__"))
