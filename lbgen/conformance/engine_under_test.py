"""Engines under test: an engine, its version and its executable or image, or the reason there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.diagnostics import EngineError, UsageError
from lbgen.engines.api import Binary, engine, engine_names, target_version
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.common.selection import missing_in_kernel

if TYPE_CHECKING:
    from lbgen.runtime.docker.images import Image
    from lbgen.runtime.docker.single_engine import SharedNetns


@dataclass(frozen=True, slots=True)
class InImage:
    """The image of an engine and the network namespace that its container shares."""

    room: SharedNetns
    image: Image


@dataclass(frozen=True, slots=True)
class EngineUnderTest:
    """One engine executable, on this host or `in_image`. `version` is the supported target (major.minor); ""
    and neither of them = `gap` says why."""

    engine: str
    version: str = ""
    binary: Binary | None = None
    gap: str = ""
    in_image: InImage | None = None

    @property
    def label(self) -> str:
        """`nginx 1.31.3`, or the engine's name alone where there is no executable."""
        if self.in_image is not None:
            return f"{self.engine} {self.in_image.image.version or self.version} in a container"
        return (
            f"{self.engine} {self.binary.version}"
            if self.binary is not None
            else f"{self.engine} {self.version}".strip()
        )


def engines_on_host(wanted: Iterable[str] = ()) -> tuple[EngineUnderTest, ...]:
    """All executables of supported versions found on this host, one per version, and a gap for each that is missing.

    `wanted` limits them: `nginx` or `nginx@1.22`. UsageError LB305 for an engine or version that is not known.
    """
    found: list[EngineUnderTest] = []
    wanted = tuple(wanted)
    for name, version in [_split(w) for w in wanted] or [(n, "") for n in engine_names()]:
        try:
            target = engine(name)
        except UsageError as error:
            if wanted:
                raise
            found.append(
                EngineUnderTest(name, gap=str(error))
            )  # an engine that does not load is a gap, not the end of a run
            continue
        only = target_version(target, version) if version else ""
        try:
            binaries = candidates(target)
        except EngineError as error:
            found.append(EngineUnderTest(name, gap=str(error)))
            continue
        for supported in target.versions:
            if only and supported != only:
                continue
            binary = next((b for b in binaries if _is_of(b, supported)), None)
            gap = "" if binary is not None else f"no executable of {target.title} {supported} here"
            gap = gap or "; ".join(each.message for each in missing_in_kernel(target))
            found.append(EngineUnderTest(name, supported, binary, gap))
    return tuple(found)


def engines_in_images(wanted: Iterable[str], room: SharedNetns) -> tuple[EngineUnderTest, ...]:
    """As `engines_on_host`, for the images that containers run from. One that is missing is fetched for the default
    version, and for others that `wanted` or this host has. UsageError LB305, EngineError LB402 and LB421."""
    from lbgen.runtime.docker.single_engine import available_images

    found: list[EngineUnderTest] = []
    for name, version in [_split(w) for w in tuple(wanted)] or [(n, "") for n in engine_names()]:
        target = engine(name)
        only = target_version(target, version) if version else ""
        binaries = candidates(target)  # a version that is not here is not fetched either, unless it is asked for
        here = {each for each in target.versions[1:] if each == only or any(_is_of(b, each) for b in binaries)}
        every = available_images(room, target, {target.versions[0], *here})
        for supported in target.versions:
            if only and supported != only:
                continue
            image = every.get(supported)
            gap = "" if image is not None else f"no image of {target.title} {supported} here"
            gap = gap or "; ".join(each.message for each in missing_in_kernel(target))
            found.append(
                EngineUnderTest(name, supported, gap=gap, in_image=InImage(room, image) if image is not None else None)
            )
    return tuple(found)


def _split(wanted: str) -> tuple[str, str]:
    name, _, version = wanted.partition("@")
    return name, version


def _is_of(binary: Binary, supported: str) -> bool:
    return binary.version == supported or binary.version.startswith(supported + ".")
