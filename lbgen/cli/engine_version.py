"""The values of --engine-version and --against-version: `haproxy=3.0`, `haproxy=3.0,3.2`."""

from __future__ import annotations

import re

import click

from lbgen.engines.api import engine_names


class EngineVersion(click.ParamType[tuple[str, str]]):
    """`ENGINE=VERSION`, as field and value of `engines.<name>.version`."""

    name = "version"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return (field, YAML text), or fail with a usage error."""
        if isinstance(value, tuple):
            return value
        name, _, version = value.partition("=")
        if name not in engine_names() or not version:
            self.fail(f"{value!r} is not ENGINE=VERSION, such as haproxy=3.0; engines: {', '.join(engine_names())}")
        return f"engines.{name}.version", f'"{version}"'


class EngineVersions(click.ParamType[tuple[str, tuple[str, ...]]]):
    """`ENGINE=VERSION,...`."""

    name = "versions"

    def convert(
        self, value: str | tuple[str, tuple[str, ...]], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[str, ...]]:
        """Return (engine, versions), or fail with a usage error."""
        if isinstance(value, tuple):
            return value
        name, _, text = value.partition("=")
        versions = tuple(text.split(","))
        if name not in engine_names() or not all(re.fullmatch(r"\d+\.\d+(\.\d+)?", each) for each in versions):
            self.fail(f"{value!r} is not ENGINE=VERSION,..., such as haproxy=3.0,3.2")
        return name, versions
