"""Mappings of a topology that lbgen/spec/tier.py describes.

Generated from lbgen/spec by docs/site/generate.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class Tier(TypedDict, total=False):
    """Replicas that serve the same listeners; pools with `tier` lead to them."""

    engine: str
    """engine that serves it; the command line's when left out"""
    replicas: int
    """how many; 1, or as many as hosts, when left out"""
    hosts: Sequence[str]
    """where they are when lbgen does not start them; <topology>-<tier>-1 and so on when left out"""
