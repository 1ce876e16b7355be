"""The page as HTML. Everything is escaped by Jinja; the template has no script and fetches nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined

if TYPE_CHECKING:
    from lbgen.html.view import Page


def to_html(page: Page) -> str:
    """The whole document."""
    return render_template("page.html.j2", page=page)


def render_template(name: str, **values: object) -> str:
    """A template of this folder, with everything escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(**values)
