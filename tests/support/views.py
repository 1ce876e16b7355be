"""What the views of text configurations hold; `finalize` refuses all else where a template prints it."""

from __future__ import annotations

from msgspec import Struct

from lbgen.engines.text import Atom, Literal


def check_view(view: object, path: str = "view") -> None:
    """Walk a view: records of Atom, Literal, int, bool, None and tuples only; else TypeError with the place."""
    if view is None or isinstance(view, Atom | Literal | int):
        return
    if isinstance(view, tuple):
        for index, item in enumerate(view):
            check_view(item, f"{path}[{index}]")
    elif isinstance(view, Struct):
        for name in view.__struct_fields__:
            check_view(getattr(view, name), f"{path}.{name}")
    else:
        raise TypeError(f"{path}: {type(view).__name__} does not belong in a view")
