"""Choose the image of an engine: one that the user names, one built from this host's executables, or the official."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines.api import Binary, Engine, local_engines
from lbgen.json_types import Printed
from lbgen.plan.model import Plan
from lbgen.runtime.common.driver import Progress, Step
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.docker import helper_image
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.helper_image import ArchiveError, ImageArchive
from lbgen.version import VERSION

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image as DockerImage


REPOSITORY = "lbgen"  # of images built here: lbgen/nginx:1.31.3
LABEL = "io.lbgen.image"  # value: the version of lbgen that built it and the tools in it
PROGRAMS = "/usr/local/sbin"
_NO_PLAN = Plan("", (), (), ())  # an engine ends in the same way, whatever it serves
_HELPERS = 4  # helper images to keep, for checkouts of lbgen used in turn
HELPER = "helper"
# Of the scripts of exported containers (lbgen.exporters). A static probe in their place would need a compiler here, and
# the official images, which have a shell, would need it put into them; root-less and read-only, a shell adds no right.
_TOOLS = ("/bin/sh", "/bin/bash", "/bin/cp", "/bin/ln", "/bin/mkdir", "/bin/mv", "/bin/rm", "/bin/sleep")


class BuiltImage(Printed, frozen=True):
    """An image that was built from executables of this host."""

    engine: str
    version: str
    reference: str
    source: Annotated[str, Meta(description="What it was built from.")]
    bytes: Annotated[int, Meta(description="The size of its archive.")]


class Image(Struct, frozen=True):
    """An image that is present. `program` is the executable inside; `version` (major.minor.patch) is None when its tag
    does not contain it; `modules` as in `Binary`."""

    reference: str
    program: str
    version: str | None
    modules: tuple[str, ...] = ()


class ImageRow(Struct, frozen=True):
    """What `up` would run for a version of an engine. `origin`: named, built, official, or "" when there is no image
    without `lbgen images build`."""

    engine: str
    version: str
    reference: str
    origin: str
    present: bool


def environment_variable(engine: str) -> str:
    """The variable that names another image: `LBGEN_NGINX_IMAGE=registry.example/nginx:1.31.3`."""
    return "LBGEN_" + re.sub(r"[^A-Z0-9]", "_", engine.upper()) + "_IMAGE"


def list_images(client: DockerClient, engines: Sequence[Engine] | None = None) -> tuple[ImageRow, ...]:
    """What `up` would run for every supported version of every engine."""
    every = local_engines().values() if engines is None else engines
    return tuple(_row(client, engine, version) for engine in every for version in engine.versions)


def choose(client: DockerClient, engine: Engine, version: str, progress: Callable[[Progress], None]) -> Image:
    """The image for `version` (major.minor) of an engine. One that is missing is pulled; where that fails and the user
    did not name it, it is built from the executable of this host.

    Raises EngineError LB422 when neither is possible, LB421 of the daemon.
    """
    row = _row(client, engine, version)
    if not row.present:
        try:
            if not row.reference:
                hint = f"lbgen images build -e {engine.name}, where its executable is"
                raise EngineError(Diagnostic("LB422", f"{engine.title} {version} has no official image", hint=hint))
            _pull(client, engine, row.reference, lambda x: progress(Progress(Step.PULLING, engine.name, x)))
            row = replace(row, present=True)
        except EngineError as error:
            if row.origin == "named":
                raise
            built, _ = build(
                client, (engine,), lambda x: progress(Progress(Step.BUILDING, engine.name, x)), only=version
            )
            if not built:
                raise error from None
            row = replace(row, reference=built[0].reference, origin="built", present=True)
    return _image(client, engine, row)


def look_up(client: DockerClient, engine: Engine, version: str) -> Image:
    """The image that `choose` would try first; nothing is pulled or built. Raises EngineError LB421."""
    return _image(client, engine, _row(client, engine, version))


def _row(client: DockerClient, engine: Engine, version: str) -> ImageRow:
    reference, origin = os.environ.get(environment_variable(engine.name)), "named"
    if not reference:
        reference, origin = _newest_built(client, engine, version), "built"
    if not reference:
        reference, origin = engine.images.official.get(version, ""), "official"
    if not reference:
        return ImageRow(engine.name, version, "", "", present=False)
    return ImageRow(engine.name, version, reference, origin, origin == "built" or _is_present(client, reference))


def _image(client: DockerClient, engine: Engine, row: ImageRow) -> Image:
    if row.origin == "built" or (row.origin == "named" and row.present and _is_built_here(client, row.reference)):
        full = row.reference.rpartition(":")[2]
        source = next((each for each in candidates(engine) if each.version == full), None)
        modules = tuple(map(str, source.modules)) if source is not None else ()
        return Image(row.reference, f"{PROGRAMS}/{engine.binaries[0].command}", full, modules)
    told_by_tag = re.search(r"(\d+\.\d+\.\d+)", row.reference.rpartition(":")[2])
    modules = engine.images.modules.get(row.version, ())
    return Image(row.reference, engine.images.program, told_by_tag[1] if told_by_tag else None, modules)


def helper_reference() -> str:
    """The name of the helper image of this lbgen."""
    return f"{REPOSITORY}/{HELPER}:{helper_image.tag()}"


def ensure_helper(client: DockerClient, said: Callable[[str], None]) -> str:
    """The helper image, which is built when this lbgen has none yet. Raises EngineError LB421, LB422."""
    reference = helper_reference()
    if not _is_present(client, reference):
        said(f"building {reference}")
        try:
            archive = helper_image.build_archive().tar()
        except (ArchiveError, OSError) as error:
            raise EngineError(Diagnostic("LB422", f"the image of lbgen itself cannot be built: {error}")) from error
        _load(client, f"{REPOSITORY}/{HELPER}", helper_image.tag(), archive, VERSION)
    return reference


def build(
    client: DockerClient, engines: Sequence[Engine], said: Callable[[str], None], only: str = ""
) -> tuple[tuple[BuiltImage, ...], tuple[tuple[str, str], ...]]:
    """Build an image of every executable of `engines` on this host of a supported version, or of version `only`.

    Returns the images, and (engine, reason) for each that failed. Raises EngineError LB421 of the daemon.
    """
    built: list[BuiltImage] = []
    failed: list[tuple[str, str]] = []
    for engine in engines:
        seen: set[str] = set()
        for binary in candidates(engine):
            fits = any(binary.version.startswith(f"{v}.") for v in ((only,) if only else engine.versions))
            if binary.version in seen or not fits:
                continue
            seen.add(binary.version)
            said(f"{engine.title} {binary.version} from {binary.path}")
            try:
                archive = _bundle(engine, binary).tar()
            except (ArchiveError, OSError) as error:
                failed.append((engine.name, str(error)))
                continue
            reference = _load(client, f"{REPOSITORY}/{engine.name}", binary.version, archive, _recipe(engine))
            _set_stop_signal(client, reference, engine.process(_NO_PLAN, binary, Path("/")).stop.name)
            built.append(BuiltImage(engine.name, binary.version, reference, str(binary.path), len(archive)))
        if not seen:
            failed.append((engine.name, f"no executable of {engine.title} {' or '.join(engine.versions)} is here"))
    return tuple(built), tuple(failed)


def _bundle(engine: Engine, binary: Binary) -> ImageArchive:
    found = ImageArchive.empty()
    found.add_program(binary.path, f"{PROGRAMS}/{engine.binaries[0].command}")
    for module in binary.modules:  # loaded by their paths
        found.add_program(module, str(module))
    for tool in _tools(engine):
        found.add_program(Path(tool).resolve(), tool)
    return found


def _recipe(engine: Engine) -> str:
    return " ".join((VERSION, *_tools(engine)))


def _tools(engine: Engine) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*engine.images.tools, *_TOOLS)))


def _load(client: DockerClient, repository: str, tag: str, archive: bytes, label: str) -> str:
    with docker_errors(f"making the image {repository}:{tag}"):
        client.api.import_image_from_data(
            archive, repository=repository, tag=tag, changes=[f"LABEL {LABEL}={json.dumps(label)}"]
        )
    _remove_old(client)
    return f"{repository}:{tag}"


def _set_stop_signal(client: DockerClient, reference: str, name: str) -> None:
    """Have the image say how its engine ends gracefully, as some orchestrators have no other place for it. An import
    takes no STOPSIGNAL, so the image is built from itself."""
    recipe = io.BytesIO(f"FROM {reference}\nSTOPSIGNAL {name}\n".encode())
    with docker_errors(f"making the image {reference}"):
        client.images.build(fileobj=recipe, tag=reference, rm=True)


def _remove_old(client: DockerClient) -> None:
    """Remove untagged images with our label and old helper images. Docker keeps an image that a container uses."""
    from docker.errors import APIError

    with docker_errors("removing old images of lbgen"):
        lost = _those_there(client, None, label=LABEL, dangling=True)
        helpers = _those_there(client, f"{REPOSITORY}/{HELPER}", label=LABEL)
        helpers.sort(key=lambda image: str(image.attrs["Created"]), reverse=True)
        for image in (*lost, *helpers[_HELPERS:]):
            for name in image.tags or (image.id,):
                with suppress(APIError):  # in use, or already removed
                    client.images.remove(name)


def _those_there(client: DockerClient, name: str | None, **filters: str | bool) -> list[DockerImage]:
    """The images that a query finds, without those that another command removes meanwhile."""
    from docker.errors import ImageNotFound

    found: list[DockerImage] = []
    for each in client.api.images(name, quiet=True, filters=filters):
        with suppress(ImageNotFound):
            found.append(client.images.get(each))
    return found


def _newest_built(client: DockerClient, engine: Engine, version: str) -> str:
    """The newest image built here of that version, with the tools that this lbgen needs; "" when there is none."""
    with docker_errors("listing images"):
        every = client.api.images(f"{REPOSITORY}/{engine.name}", filters={"label": f"{LABEL}={_recipe(engine)}"})
        tags = [tag for image in every for tag in image["RepoTags"] or ()]
    found = [tag for tag in tags if tag.rpartition(":")[2].startswith(f"{version}.")]
    return max(found, key=lambda tag: [int(n) for n in re.findall(r"\d+", tag.rpartition(":")[2])], default="")


def _is_present(client: DockerClient, reference: str) -> bool:
    from docker.errors import ImageNotFound

    with docker_errors(f"looking for the image {reference}"):
        try:
            client.images.get(reference)
        except ImageNotFound:
            return False
    return True


def _is_built_here(client: DockerClient, reference: str) -> bool:
    with docker_errors(f"looking at the image {reference}"):
        return LABEL in client.images.get(reference).labels


def _pull(client: DockerClient, engine: Engine, reference: str, pulling: Callable[[str], None]) -> None:
    from docker.errors import APIError

    with docker_errors(f"pulling the image {reference}", whole=False):
        try:
            for event in client.api.pull(reference, stream=True, decode=True):
                if "error" in event:
                    raise _pull_error(engine, reference, event["error"])
                pulling(" ".join(str(event[key]) for key in ("id", "status", "progress") if event.get(key)))
        except APIError as error:
            raise _pull_error(engine, reference, error.explanation or str(error)) from error


def _pull_error(engine: Engine, reference: str, why: str) -> EngineError:
    variable = environment_variable(engine.name)
    build = f"without a registry: lbgen images build -e {engine.name}"
    if os.environ.get(variable) == reference:
        hint = f"{variable} names it: docker load it, name another one, or unset {variable} ({build})"
    else:
        hint = f"{build}; or name an image: {variable}=..."
    return EngineError(Diagnostic("LB422", f"the image {reference} cannot be pulled: {why.strip()}", hint=hint))
