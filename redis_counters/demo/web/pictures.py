"""A small landscape for each post, drawn from its number: sky, sun, three ranges of hills."""

from __future__ import annotations

import functools
import math
import random

WIDTH, HEIGHT = 320, 132
# Sky above, sky below, sun, and the hills from far to near.
_PALETTES = (
    ("#fde7c8", "#f6b48f", "#fff6df", "#d98f8a", "#a9657c", "#5b3a5e"),
    ("#cfe8f3", "#9cc9e0", "#fffbe8", "#7fb0c4", "#4b819b", "#234d66"),
    ("#e6efd2", "#b9d6a4", "#fff3c4", "#8fb98a", "#5a8f6c", "#2b5a4c"),
    ("#2b2f58", "#6a4c86", "#ffe3b3", "#4b3a70", "#33305b", "#1c1d3d"),
    ("#f9dfe3", "#e3a8bd", "#fff4ee", "#bd7f9f", "#87557f", "#4a325a"),
    ("#0f2f3d", "#1f6a6b", "#d8f5d0", "#1c5560", "#143f4c", "#0b2833"),
    ("#fbeeda", "#efc98a", "#ffffff", "#d7a361", "#a8723f", "#5f412b"),
)


@functools.lru_cache(maxsize=64)
def picture(number: int) -> str:
    """Return the landscape of this number, always the same, as SVG."""
    rng = random.Random(number * 7919)
    top, bottom, sun, *hills = _PALETTES[number % len(_PALETTES)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="xMidYMid slice">',
        f'<linearGradient id="sky" x2="0" y2="1"><stop stop-color="{top}"/><stop offset="1" stop-color="{bottom}"/>',
        f'</linearGradient><rect width="{WIDTH}" height="{HEIGHT}" fill="url(#sky)"/>',
        f'<circle cx="{rng.randint(50, WIDTH - 50)}" cy="{rng.randint(28, 62)}" r="{rng.randint(12, 22)}" '
        f'fill="{sun}" opacity="0.92"/>',
    ]
    for depth, colour in enumerate(hills):
        parts.append(f'<path d="{_range_of_hills(rng, 62 + 22 * depth, 20 - 4 * depth)}" fill="{colour}"/>')
    return "".join([*parts, "</svg>"])


def _range_of_hills(rng: random.Random, middle: float, rise: float) -> str:
    """Return the outline of hills about this height: two random waves on top of each other."""
    waves = [(rise / n, n * rng.uniform(0.9, 1.6) / WIDTH, rng.uniform(0, 2)) for n in (1, 3)]
    points = []
    for x in range(0, WIDTH + 8, 8):
        y = middle + sum(size * math.sin(2 * math.pi * (often * x + begin)) for size, often, begin in waves)
        points.append(f"{x},{y:.1f}")
    return f"M0,{HEIGHT}L{' '.join(points)} {WIDTH + 8},{HEIGHT}Z"
