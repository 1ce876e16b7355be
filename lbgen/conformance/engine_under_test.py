"""Engines under test: an engine, its version and its executable or image, or the reason there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.diagnostics import EngineError, UsageError
from lbgen.engines.api import Binary, Deployed, Engine, engine, engine_names, target_version
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.common.selection import missing_in_kernel

if TYPE_CHECKING:
    from lbgen.runtime.docker.images import Image
    from lbgen.runtime.docker.single_engine import SharedNetns


class InImage(Struct, frozen=True):
    """The image of an engine and the network namespace that its container shares."""

    netns: SharedNetns
    image: Image


class EngineUnderTest(Struct, frozen=True):
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
    for name, version in _split(wanted):
        try:
            target = engine(name)
            if not wanted and isinstance(target, Deployed):
                continue
            binaries = candidates(target)
        except (UsageError, EngineError) as error:
            if wanted and isinstance(error, UsageError):
                raise
            # An engine that does not load is a gap, not the end of a run.
            found.append(EngineUnderTest(name, gap=str(error)))
            continue
        for supported in _versions(target, version):
            binary = next((b for b in binaries if _is_of(b, supported)), None)
            gap = _gap(target, "" if binary is not None else f"no executable of {target.title} {supported} here")
            found.append(EngineUnderTest(name, supported, binary, gap))
    return tuple(found)


def engines_in_images(wanted: Iterable[str], netns: SharedNetns) -> tuple[EngineUnderTest, ...]:
    """As `engines_on_host`, for the images that containers run from. One that is missing is fetched for the default
    version, and for others that `wanted` or this host has. UsageError LB305, EngineError LB402 and LB421."""
    from lbgen.runtime.docker.single_engine import available_images  # the docker SDK is heavy

    found: list[EngineUnderTest] = []
    wanted = tuple(wanted)
    for name, version in _split(wanted):
        target = engine(name)
        if not wanted and isinstance(target, Deployed):
            continue
        asked = _versions(target, version)
        binaries = candidates(target)  # a version that is not here is not fetched either, unless it is asked for
        here = {x for x in target.versions[1:] if (version and x in asked) or any(_is_of(b, x) for b in binaries)}
        every = available_images(netns, target, {target.versions[0], *here})
        for supported in asked:
            image = every.get(supported)
            gap = _gap(target, "" if image is not None else f"no image of {target.title} {supported} here")
            in_image = InImage(netns, image) if image is not None else None
            found.append(EngineUnderTest(name, supported, gap=gap, in_image=in_image))
    return tuple(found)


def _split(wanted: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Engine and version ("" = all) of each."""
    for each in wanted or engine_names():
        name, _, version = each.partition("@")
        yield name, version


def _versions(target: Engine, version: str) -> tuple[str, ...]:
    return (target_version(target, version),) if version else target.versions


def _gap(target: Engine, missing: str) -> str:
    return missing or "; ".join(each.message for each in missing_in_kernel(target))


def _is_of(binary: Binary, supported: str) -> bool:
    return binary.version == supported or binary.version.startswith(supported + ".")
