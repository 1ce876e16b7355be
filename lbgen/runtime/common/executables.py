"""Finds an engine's executables on this host, with their versions, and chooses the one for a target version."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from errno import ENOENT, ENOEXEC
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from lbgen.diagnostics import Diagnostic, EngineError, UsageError
from lbgen.engines.api import Binary, BinaryHint, Deployed, Engine, target_version
from lbgen.plan.model import Plan
from lbgen.system_errors import to_diagnostic

_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # often not on the PATH of a user who is not root
_ASK_SECONDS = 30.0
_NO_PROGRAM = (ENOENT, ENOEXEC)  # also: its interpreter is missing


def environment_variable(engine: str) -> str:
    """The variable whose value overrides the search: `LBGEN_NGINX=/opt/nginx/sbin/nginx`."""
    return "LBGEN_" + re.sub(r"[^A-Z0-9]", "_", engine.upper())


def candidates(engine: Engine) -> tuple[Binary, ...]:
    """Every executable of `engine` found here, in the order of its hints, packages before PATH; scripts that only wrap
    another program come last. With the environment override only that one.

    Raises EngineError LB402 when the override does not name an executable that tells its version. What cannot be asked
    is not taken for absent, as another version would serve then: LB403 when one takes more than 30 s to tell its
    version, LB425 when no process can be started.
    """
    variable = environment_variable(engine.name)
    asked = os.environ.get(variable)
    if asked:
        for hint in engine.binaries:
            found = _binary(hint, Path(asked).absolute())
            if found is not None:
                return (found,)
        raise EngineError(Diagnostic("LB402", f"{variable}={asked} is not an executable of {engine.title}"))
    seen: dict[Path, tuple[bool, Binary]] = {}
    for hint in engine.binaries:
        for path in _places(hint):
            real = path.resolve()
            if real in seen:
                continue
            found = _binary(hint, path)
            if found is not None:
                seen[real] = (_is_script(real), found)
    return tuple(binary for _, binary in sorted(seen.values(), key=lambda pair: pair[0]))


def find(engine: Engine, version: str | None = None) -> tuple[Binary, str]:
    """The executable to use and the supported version (major.minor) to render for.

    With `version` (1.31 or 1.31.3) the executable must be of it. Without, the one of the first supported version;
    failing that an executable between two supported versions is served the older one's files. Raises EngineError LB402
    (none fits; names what was found) and UsageError LB305 (`version` is older than all).
    """
    found = candidates(engine)
    if version is not None:
        wanted = target_version(engine, version)
        for binary in found:
            if _is_of(binary.version, version):
                return binary, wanted
        raise _missing(engine, found, f"{engine.title} {version}")
    rated = [(target, binary) for binary in found if (target := _target(engine, binary.version)) is not None]
    for exact in (True, False):
        for version in engine.versions:
            for target, binary in rated:
                if target == version and _is_of(binary.version, target) is exact:
                    return binary, target
    raise _missing(engine, found, engine.title)


def find_checker(engine: Deployed) -> Binary:
    """The program that checks its files. Raises EngineError LB402 where it is not here, and as `candidates`."""
    found = (_binary(engine.checker, path) for path in _places(engine.checker))
    binary = next(filter(None, found), None)
    if binary is None:
        message = f"no executable of {engine.checker.command} was found, which checks its files"
        raise EngineError(Diagnostic("LB402", message, hint=f"`{engine.checker_install}`"))
    return binary


def find_for(plan: Plan, engine: Engine, binary: Binary | None, version: str | None) -> tuple[Binary, str]:
    """`binary` with the version to render for, or as `find` for `version` or that of `engines.<engine>.version`."""
    if binary is not None:
        return binary, supported_version(engine, binary)
    return find(engine, version or plan.options(engine.name).version)


def supported_version(engine: Engine, binary: Binary) -> str:
    """The supported version whose files `binary` understands: its own, else the newest older one; EngineError LB402."""
    target = _target(engine, binary.version)
    if target is None:
        hint = f"supported: {', '.join(engine.versions)}"
        raise EngineError(
            Diagnostic("LB402", f"{engine.title} {binary.version} at {binary.path} is too old", hint=hint)
        )
    return target


def _target(engine: Engine, version: str) -> str | None:
    try:
        return target_version(engine, version)
    except UsageError:
        return None


def _missing(engine: Engine, found: tuple[Binary, ...], wanted: str) -> EngineError:
    seen = ", ".join(f"{b.version} at {b.path}" for b in found)
    message = f"no executable of {wanted} was found" + (f" (there is {seen})" if seen else "")
    hint = f"install it, or `pip install 'lbgen[engines]'`, or set {environment_variable(engine.name)} to its path"
    return EngineError(Diagnostic("LB402", message, hint=hint))


def _places(hint: BinaryHint) -> Iterator[Path]:
    """Where the hint's executable may be, best first."""
    machine = platform.machine()
    if hint.package:
        spec = find_spec(hint.package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            if hint.path:
                yield Path(folder) / hint.path.replace("{machine}", machine)
    if not hint.command:
        return
    yield Path(sys.executable).parent / hint.command  # not resolved: a venv's python is a link to another folder
    yield Path(sys.prefix) / "bin" / hint.command
    for entry in (*os.environ.get("PATH", "").split(os.pathsep), *_SYSTEM_FOLDERS):
        if entry:
            yield Path(entry).absolute() / hint.command


def _binary(hint: BinaryHint, path: Path) -> Binary | None:
    # access() first: is_file() raises for a folder of PATH that this user may not enter.
    if not os.access(path, os.X_OK) or not path.is_file():
        return None
    try:
        output = _ask(str(path), hint.version_argv, path.stat().st_mtime_ns)
    except subprocess.TimeoutExpired:
        message = f"`{shlex.join((str(path), *hint.version_argv))}` does not end within {_ASK_SECONDS:.0f} s"
        raise EngineError(Diagnostic("LB403", message, hint="repeat it with less load, or remove that file")) from None
    except OSError as error:
        raise EngineError(to_diagnostic(error, str(path))) from None
    version = re.search(hint.version_pattern, output)
    if version is None:
        return None
    folders = re.findall(hint.modules_pattern, output) if hint.modules_pattern else ()
    modules = tuple(each for folder in folders for each in sorted(Path(folder).glob("*.so")))
    return Binary(path, version.group(1), modules)


@lru_cache(maxsize=256)
def _ask(path: str, argv: tuple[str, ...], _changed: int) -> str:
    """What the executable says about its version; empty when it is not a program of this machine.

    Raises OSError (a process cannot be started now) and subprocess.TimeoutExpired.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the path was found by a hint or named by the user
            [path, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except OSError as error:
        if error.errno in _NO_PROGRAM:
            return ""
        raise
    return done.stdout.decode("utf-8", "replace")


def _is_script(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"#!"


def _is_of(version: str, wanted: str) -> bool:
    return version == wanted or version.startswith(wanted + ".")
