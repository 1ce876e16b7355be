"""The value of --set."""

from __future__ import annotations

import click


class Setting(click.ParamType[tuple[str, str]]):
    """`FIELD=VALUE`; the value is YAML."""

    name = "setting"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return field and value, or fail with a usage error."""
        if isinstance(value, tuple):
            return value
        field, equals, text = value.partition("=")
        if not equals or not field:
            self.fail(f"{value!r} is not FIELD=VALUE, such as listeners.web.port=8081", param, ctx)
        return field, text
