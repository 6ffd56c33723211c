"""docker-compose.yml, as the client of Docker understands it; nothing is started."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.needs import compose

ROOT = Path(__file__).parent.parent


def config(*options: str, **variables: str) -> str:
    """Return what ``docker compose config`` prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("REDIS_", "VALKEY_", "COMPOSE_"))}
    return subprocess.run(
        [*compose(), "-f", ROOT / "docker-compose.yml", *options],
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


def test_its_profiles() -> None:
    """Whatever is more than one Redis has to be asked for."""
    assert set(config("config", "--profiles").split()) == {"cluster", "regions", "sentinel", "valkey"}


@pytest.mark.parametrize(
    ("profile", "variables", "expected"),
    [
        ("valkey", {}, ["image: redis:8.2", "image: valkey/valkey:8.1", "6379", "6380"]),
        ("valkey", {"REDIS_IMAGE": "redis:6.2", "VALKEY_IMAGE": "valkey/valkey:9"}, ["redis:6.2", "valkey/valkey:9"]),
        ("valkey", {"REDIS_PORT": "6390", "VALKEY_PORT": "6391"}, ["6390", "6391"]),
        ("regions", {"REDIS_IMAGE": "redis:7.4"}, ["image: redis:7.4", "6379", "6381", "6382"]),
        ("cluster", {"REDIS_IMAGE": "redis:7.4"}, ["image: redis:7.4", "7001", "7006", "--cluster-enabled yes"]),
        ("sentinel", {"REDIS_IMAGE": "redis:7.4"}, ["image: redis:7.4", "26379", "26381", "sentinel monitor counted"]),
    ],
)
def test_it_is_accepted(profile: str, variables: dict[str, str], expected: list[str]) -> None:
    """Every profile resolves, with its variables and without."""
    resolved = config("--profile", profile, "config", **variables)
    for part in expected:
        assert part in resolved
