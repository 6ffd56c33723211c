"""Ratios, not times: each benchmark measures both of its sides in turn, in one run, on one server of its own."""

from __future__ import annotations
