"""nginx's rendered files as one text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def with_includes(files: Mapping[str, str]) -> str:
    """nginx.conf with the text of the files that it includes."""
    text = files["nginx.conf"]
    for name, included in sorted(files.items(), reverse=True):  # routes/ include proxy_headers.conf
        lines = included.strip().replace("\n", f"\n{' ' * 12}")
        text = text.replace(f"{{ include {name}; }}", f"{{\n            {lines}\n        }}")
        text = text.replace(f"include {name};", lines)
    return text
