"""Files that a topology names: whether they are there, names of certificates, what pages and secrets hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.plan.error_pages import LARGEST_PAGE, read_page
from lbgen.plan.files import certificate_names
from lbgen.plan.sticky import SHORTEST_SECRET, read_secret
from lbgen.spec.error_pages import ErrorPage
from lbgen.spec.listener import Certificate
from lbgen.spec.pool import Sticky
from lbgen.spec.values import FilePath, FolderPath

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context

# Files whose content is part of every plan: the field, the code, what it is, how it is read, and what to write.
_READ = (
    (
        ErrorPage,
        "file",
        "LB237",
        "error page",
        read_page,
        f"an error page is text in UTF-8 of at most {LARGEST_PAGE >> 10} KiB",
    ),
    (
        *(Sticky, "secret", "LB230", "secret", read_secret),
        f"create a file with at least {SHORTEST_SECRET} random bytes: `openssl rand -hex 32 > FILE`",
    ),
)
# Those that are named so are read as a plan is made, by these or by the checks of auth.
_CONTENT = (*(f".{key}" for _, key, *_ in _READ), ".users", ".jwks")


def check(context: Context) -> None:
    """LB211: every file must exist and be readable; relative paths start at the folder of the topology."""
    for field, name in context.values(FilePath).items():
        if field.endswith(_CONTENT):
            continue
        path = context.topology.base / name
        hint = "" if name.startswith("/") else f"looked for {Path(context.topology.file).parent / name}"
        try:
            with path.open("rb"):
                continue
        except IsADirectoryError:
            what = "is a folder"
        except (FileNotFoundError, NotADirectoryError):
            what = "does not exist"
        except OSError as error:
            what = f"cannot be read: {error.strerror}"
            hint = f"make {path} readable for the user who runs lbgen"
        context.add("LB211", field, f'the file "{name}" {what}', hint)
    for field, name in context.values(FolderPath).items():
        if not (context.topology.base / name).is_dir():
            context.add("LB211", field, f'the folder "{name}" does not exist')


def check_certificates(context: Context) -> None:
    """LB220: names are written, or can be read from the certificate."""
    for field, pair in context.values(Certificate).items():
        if pair.names is not None or not field.startswith("listeners."):  # an endpoint gets one whatever its names
            continue
        try:
            found = certificate_names(context.topology.base / pair.cert)
            reason = "it holds no DNS name"
        except (OSError, ValueError) as error:
            found, reason = (), getattr(error, "strerror", None) or "it is not a PEM certificate"
        if not found:
            message = f'the names of "{pair.cert}" cannot be read: {reason}'
            context.add("LB220", f"{field}.cert", message, "write the names it serves: names: [shop.example]")


def check_content(context: Context) -> None:
    """LB230, LB237: what is put into a configuration must be readable wherever a plan is made."""
    for model, key, code, title, read, hint in _READ:
        for field, value in context.values(model).items():
            name = getattr(value, key)
            if name is None:
                continue
            try:
                read(context.topology.base / name)
            except (OSError, ValueError) as error:
                reason = (getattr(error, "strerror", None) or str(error)).lower()
                context.add(code, f"{field}.{key}", f'the {title} "{name}" cannot be used: {reason}', hint)
