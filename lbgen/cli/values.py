"""The values of options: functions for click, which raise BadParameter, and words with shell completion."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from lbgen.codes import CODES
from lbgen.engines.api import engine_names
from lbgen.plan.features import all_features


class OneOf(click.ParamType[Any]):
    """One of many words, with shell completion; a usage error suggests the nearest one."""

    def __init__(self, name: str, words: Callable[[], Collection[str]], hint: str = "") -> None:
        self.name = name
        self.words = words
        self.hint = hint

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Return `value` if it is an allowed word, or fail with a usage error."""
        if value not in self.words():
            near = get_close_matches(value, self.words(), n=1, cutoff=0.8)
            hint = f"did you mean {near[0]!r}?" if near else self.hint
            self.fail(f"there is no {self.name} {value!r}; {hint}", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the words that start with `incomplete`."""
        return [CompletionItem(word) for word in self.words() if word.startswith(incomplete)]


class EngineName(OneOf):
    """An installed engine; a usage error lists the installed ones."""

    def __init__(self) -> None:
        super().__init__("engine", engine_names)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return an installed engine's name, or fail with a usage error."""
        if value not in engine_names():
            self.fail(f"unknown engine {value!r}; installed: {', '.join(engine_names())}", param, ctx)
        return value


class EngineAndVersion(EngineName):
    """`haproxy` or `haproxy@3.2`."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value`; fail for an engine that is not installed."""
        super().convert(value.partition("@")[0], param, ctx)
        return value


class PartName(EngineName):
    """An engine of a stack, or a replica of a tier; the running stack validates it."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value` unchanged; the stack rejects unknown names."""
        return value


class FeatureNames(OneOf):
    """Features as `lbgen explain` lists them, or `all`, separated by commas; the value is a tuple."""

    def __init__(self) -> None:
        hint = "`lbgen explain` lists the features of a topology; `all` accepts any"
        super().__init__("feature", lambda: ("all", *all_features()), hint)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return them, or fail with a usage error."""
        return tuple(super(FeatureNames, self).convert(word, param, ctx) for word in value.split(","))


class PageFile(click.Path):
    """A file for a report, or with `dash` also `-`; its folder must be there before a long command begins."""

    def __init__(self, *, dash: bool = True) -> None:
        super().__init__(dir_okay=False, writable=True, allow_dash=dash)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Return the path, or fail with a usage error."""
        found = str(super().convert(value, param, ctx))
        if found != "-" and not Path(found).parent.is_dir():
            self.fail(f"there is no folder {str(Path(found).parent)!r}", param, ctx)
        return found


class Seconds(click.FloatRange):
    """A finite time in seconds."""

    def __init__(self) -> None:
        super().__init__(min=0, max=86_400)

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; fail for `nan`, which a range check does not reject."""
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return found


FINDING_CODE = OneOf("code", lambda: CODES, "`lbgen check` shows the codes of findings")


def setting(text: str) -> tuple[str, str]:
    """`FIELD=VALUE`; the value is YAML."""
    field, equals, value = text.partition("=")
    if not equals or not field:
        raise click.BadParameter(f"{text!r} is not FIELD=VALUE, such as listeners.web.port=8081")
    return field, value


def engine_version(text: str) -> tuple[str, str]:
    """`haproxy=3.0`, as field and value of `engines.<name>.version`."""
    name, _, version = text.partition("=")
    if name not in engine_names() or not version:
        known = ", ".join(engine_names())
        raise click.BadParameter(f"{text!r} is not ENGINE=VERSION, such as haproxy=3.0; engines: {known}")
    return f"engines.{name}.version", f'"{version}"'


def engine_versions(text: str) -> tuple[str, tuple[str, ...]]:
    """`haproxy=3.0,3.2`, as the engine and its versions."""
    name, _, listed = text.partition("=")
    versions = tuple(listed.split(","))
    if name not in engine_names() or not all(re.fullmatch(r"\d+\.\d+(\.\d+)?", each) for each in versions):
        raise click.BadParameter(f"{text!r} is not ENGINE=VERSION,..., such as haproxy=3.0,3.2")
    return name, versions


def listener_url(text: str) -> tuple[str, str]:
    """`https://HOST` or `web=https://HOST:PORT`, as the listener's name ("" = none) and the URL."""
    found = re.fullmatch(r"(?:([^=:/]+)=)?(https?://\S+)", text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not [LISTENER=]URL, such as web=http://192.0.2.10")
    return found[1] or "", found[2]


def ip(text: str) -> str:
    """An IPv4 or IPv6 address, in its canonical form."""
    try:
        return str(ip_address(text))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not an IP address; write one such as 10.0.0.7 or 2001:db8::7") from None


def status(text: str) -> tuple[int, int]:
    """`404`, `500-503` or `5xx` as first and last."""
    found = re.fullmatch(r"([1-5])xx|([0-9]{3})(?:-([0-9]{3}))?", text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a status; write 404, 500-503 or 5xx")
    hundred, first, last = found.groups()
    return (int(hundred) * 100, int(hundred) * 100 + 99) if hundred else (int(first), int(last or first))


def numbers(most: int, *, none: bool = False) -> Callable[[str], tuple[int, ...]]:
    """Numbers, separated by commas; where `none` is allowed, that is no number."""

    def convert(text: str) -> tuple[int, ...]:
        if none and text == "none":
            return ()
        words = text.split(",")
        if not all(word.isascii() and word.isdigit() and 1 <= int(word) <= most for word in words):
            raise click.BadParameter(f"{text!r} is not a list such as 50,250 of numbers from 1 to {most}")
        return tuple(map(int, words))

    return convert


def delay(text: str) -> tuple[str, float]:
    """An endpoint and a duration, as its field and seconds."""
    field, _, number = text.partition("=")
    found = re.fullmatch(r"(\d+)(ms|s)", number)
    if not field or found is None:
        raise click.BadParameter(f"{text!r} is not an endpoint and a time such as pools.app.endpoints[0]=5ms")
    return field, int(found[1]) * (0.001 if found[2] == "ms" else 1.0)


def variant(text: str) -> tuple[str, str, str]:
    """A name, a field and the text of its value, which is YAML."""
    name, _, rest = text.partition(":")
    field, equals, value = rest.partition("=")
    if not name or not field or not equals:
        example = "direct:engines.nftables.forwarding=direct"
        raise click.BadParameter(f"{text!r} is not a name, a field and its value such as {example}")
    return name, field, value
