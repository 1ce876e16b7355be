"""Plan -> the native files of one engine, verdicts first; and those files on disk."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.diagnostics import EngineError, LbgenError
from lbgen.engines.acme_spec import acme_files
from lbgen.engines.api import Deployed, Engine, RenderedFile, target_version
from lbgen.engines.api import engine as find_engine
from lbgen.engines.metrics_spec import metrics_files
from lbgen.engines.verdicts import Answer, answers, judge
from lbgen.plan.model import Plan
from lbgen.plan.tls import File

if TYPE_CHECKING:
    from lbgen.spec.load import Topology

_PUBLIC, _SECRET = 0o644, 0o600
MANIFEST = ".lbgen-files"  # names written last time, so that files of ours that are gone are removed and others are not


class Rendered(Mapping[str, str]):
    """The files of one engine: a mapping of file name (relative, `/` between folders) to text."""

    def __init__(
        self,
        engine: str,
        version: str,
        files: tuple[RenderedFile, ...],
        verdicts: tuple[Answer, ...] = (),
        copies: tuple[File, ...] = (),
    ) -> None:
        self.engine = engine
        self.version = version
        self.files = files
        self.verdicts = verdicts
        self.copies = copies  # files of the topology's own, and secret ones, put beside the configs by `write`

    def __repr__(self) -> str:
        return f"<Rendered {self.engine} {self.version}: {', '.join(self)}>"

    def __getitem__(self, name: str) -> str:
        for file in self.files:
            if file.name == name:
                return file.text
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (file.name for file in self.files)

    def __len__(self) -> int:
        return len(self.files)

    def with_files(self, files: Iterable[RenderedFile]) -> Rendered:
        """A copy with these files instead."""
        return Rendered(self.engine, self.version, tuple(files), self.verdicts, self.copies)

    def write(self, directory: str | os.PathLike[str], owner: tuple[int, int] | None = None) -> tuple[Path, ...]:
        """Write the files below `directory` and return their paths.

        All texts are written beside their targets first and then renamed, so a failure leaves the old files whole.
        A file that is there already with the same bytes, mode and owner is left alone.
        Files that an earlier `write` left and that are no longer rendered go away, other files stay. The topology's
        own relative files are copied, keys readable by their owner alone. `owner` (uid, gid; default: ourselves) gets
        each file before it is in its place. Raises OSError, and EngineError LB424 for a file of the topology's own.
        """
        root = Path(directory)
        root.mkdir(parents=True, exist_ok=True)
        staged: list[tuple[Path, Path]] = []
        every: list[Path] = []

        def stage(name: str, content: bytes, mode: int) -> None:
            target = root / PurePosixPath(name)
            every.append(target)
            if not _is_there(target, content, mode, owner):
                _folder(target.parent, root, owner)
                staged.append((_stage(target, content, mode, owner), target))

        try:
            for copy in self.copies:  # first, as the other files name them
                if copy.is_copied:
                    stage(copy.path, copy.content(), _SECRET if copy.secret else _PUBLIC)
            for file in self.files:
                stage(file.name, file.text.encode(), _PUBLIC)
        except (OSError, EngineError):
            for temporary, _ in staged:
                temporary.unlink(missing_ok=True)
            raise
        names = [*self, *(copy.path for copy in self.copies if copy.is_copied)]
        gone = [name for name in _listed(root) if name not in names]
        # First: an engine that watches its files loads them at once, so as little as possible may fail after that.
        _list(root, [*names, *gone], owner)
        for temporary, target in staged:
            temporary.replace(target)
        for name in gone:
            (root / PurePosixPath(name)).unlink(missing_ok=True)
        if gone:
            _list(root, names, owner)
        return tuple(every)


def with_texts(rendered: Rendered, texts: Mapping[str, str]) -> Rendered:
    """`rendered` with these texts, by name, instead of its own and beside them."""
    files = [replace(file, text=texts.get(file.name, file.text)) for file in rendered.files]
    more = [RenderedFile(name, text) for name, text in texts.items() if name not in rendered]
    return rendered.with_files((*files, *more))


def exchange(root: Path, texts: Mapping[str, str], owner: tuple[int, int] | None = None) -> None:
    """Rename `texts`, by name, into their places below `root`, in their order; the others of an earlier `write` stay.
    `owner` as in `Rendered.write`. Raises OSError."""
    listed = _listed(root)
    if new := [name for name in texts if name not in listed]:  # first, so that an interrupted change finds them
        _list(root, [*listed, *new], owner)
    for name, text in texts.items():
        target = root / PurePosixPath(name)
        _folder(target.parent, root, owner)
        _stage(target, text.encode(), owner=owner).replace(target)


def _listed(root: Path) -> list[str]:
    manifest = root / MANIFEST
    return manifest.read_text(encoding="utf-8").splitlines() if manifest.is_file() else []


def _list(root: Path, names: list[str], owner: tuple[int, int] | None) -> None:
    manifest = root / MANIFEST
    _stage(manifest, "".join(f"{name}\n" for name in names).encode(), owner=owner).replace(manifest)


def _is_there(target: Path, content: bytes, mode: int, owner: tuple[int, int] | None) -> bool:
    try:
        found = target.lstat()
        alike = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == mode and found.st_size == len(content)
        whose = owner or (os.geteuid(), os.getegid())
        return alike and (found.st_uid, found.st_gid) == whose and target.read_bytes() == content
    except OSError:
        return False


def _folder(path: Path, root: Path, owner: tuple[int, int] | None) -> None:
    """Make `path` below `root`, the owner's at every step."""
    if path == root or path.is_dir():
        return
    _folder(path.parent, root, owner)
    path.mkdir()
    if owner is not None:
        os.chown(path, *owner)


def _stage(target: Path, content: bytes, mode: int = _PUBLIC, owner: tuple[int, int] | None = None) -> Path:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    staged = Path(name)
    staged.chmod(mode)
    if owner is not None:
        os.chown(staged, *owner)
    return staged


def explain(topology: Topology | Plan, engine: str, accept: tuple[str, ...] = ()) -> tuple[Answer, ...]:
    """What one engine says to each feature of `topology`: its verdict, and the fields that ask for the feature.

    Raises LbgenError: findings of the topology, LB305 unknown engine or version.
    """
    return answers(*_planned(topology, engine), accept)


def render(topology: Topology | Plan, engine: str, accept: tuple[str, ...] = ()) -> Rendered:
    """The native configuration of `topology` for one engine, in the version that `engines.<engine>.version` asks for.

    `accept` names approximate features to accept beside the topology's own, `all` for every one. Raises LbgenError:
    findings of the topology, LB301 refused, LB302 approximate and not accepted, LB305 unknown engine or version.
    """
    plan, target, version = _planned(topology, engine)
    return render_with(target, plan, version, accept)


def _planned(topology: Topology | Plan, engine: str) -> tuple[Plan, Engine, str]:
    """The plan, the engine and its version."""
    if not isinstance(topology, Plan):
        from lbgen.plan.resolve import plan  # with pydantic, which a process that has a plan saves

        topology = plan(topology)
    target = find_engine(engine)
    return topology, target, target_version(target, topology.options(engine).version)


def render_with(target: Engine, plan: Plan, version: str, accept: tuple[str, ...] = ()) -> Rendered:
    """The files of `plan` by an engine at hand, for one of its versions; LbgenError with the verdicts that stop it."""
    verdicts, problems = judge(plan, target, version, accept)
    if problems:
        raise LbgenError(problems)
    if isinstance(target, Deployed):  # no agent runs beside it, and nothing there reads files of this host
        return Rendered(target.name, version, target.render(plan, version), verdicts)
    files = (*target.render(plan, version), *metrics_files(plan, target, version), *acme_files(plan, target))
    return Rendered(
        target.name,
        version,
        tuple(file for file in files if not file.secret),
        verdicts,
        (*plan.files, *(File(file.name, secret=True, text=file.text) for file in files if file.secret)),
    )
