"""The value of --engine-version: `haproxy=3.0`, as the topology's own field."""

from __future__ import annotations

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
