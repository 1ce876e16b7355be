"""The values of the options of `lbgen bench`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lbgen.bench.faults.fault import Fault


class Delay(click.ParamType[tuple[str, float]]):
    """An endpoint and a duration; the value is its field and seconds."""

    name = "delay"

    def convert(
        self, value: str | tuple[str, float], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Return them, or fail with a usage error."""
        if isinstance(value, tuple):
            return value
        field, _, number = value.partition("=")
        found = re.fullmatch(r"(\d+)(ms|s)", number)
        if not field or found is None:
            self.fail(f"{value!r} is not an endpoint and a time such as pools.app.endpoints[0]=5ms", param, ctx)
        return field, int(found[1]) * (0.001 if found[2] == "ms" else 1.0)


class Variant(click.ParamType[tuple[str, str, str]]):
    """A name, a field and the text of its value, which is YAML."""

    name = "variant"

    def convert(
        self, value: str | tuple[str, str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str, str]:
        """Return them, or fail with a usage error."""
        if isinstance(value, tuple):
            return value
        name, _, setting = value.partition(":")
        field, equals, text = setting.partition("=")
        if not name or not field or not equals:
            example = "direct:engines.nftables.forwarding=direct"
            self.fail(f"{value!r} is not a name, a field and its value such as {example}", param, ctx)
        return name, field, text


class Faults(click.ParamType["tuple[Fault, ...]"]):
    """Names of faults, separated by commas, or `all`."""

    name = "faults"

    def convert(
        self, value: str | tuple[Fault, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Fault, ...]:
        """Return them, or fail with a usage error."""
        if isinstance(value, tuple):
            return value
        from lbgen.bench.faults.fault import Fault

        names = list(map(str, Fault))
        words = names if value == "all" else value.split(",")
        if unknown := [word for word in words if word not in names]:
            self.fail(f"{unknown[0]!r} is no fault; it is all or some of {','.join(names)}", param, ctx)
        return tuple(map(Fault, words))


class Numbers(click.ParamType[tuple[int, ...]]):
    """Numbers, separated by commas; where `none` is allowed, that is no number."""

    name = "numbers"

    def __init__(self, most: int, *, none: bool = False) -> None:
        self.most = most
        self.none = none

    def convert(
        self, value: str | tuple[int, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return them, or fail with a usage error."""
        if isinstance(value, tuple):
            return value
        if self.none and value == "none":
            return ()
        words = value.split(",")
        if not all(word.isascii() and word.isdigit() and 1 <= int(word) <= self.most for word in words):
            self.fail(f"{value!r} is not a list such as 50,250 of numbers from 1 to {self.most}", param, ctx)
        return tuple(int(word) for word in words)
