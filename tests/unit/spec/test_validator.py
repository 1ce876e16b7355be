"""The schema of topologies that is kept on disk is the one that pydantic builds, and only ever a matter of time."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

import lbgen
from lbgen import __version__
from lbgen.spec import validator as module
from lbgen.spec.declare import pydantic_model
from lbgen.spec.model import TopologyModel
from lbgen.spec.schema import models_of_topology
from lbgen.spec.source import read_bytes, read_file
from tests.support.growth import rich_topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]
WRONG = sorted((ROOT / "tests" / "errors").rglob("*.yaml"))


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    module.validator.cache_clear()
    yield tmp_path
    module.validator.cache_clear()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each schema that is built."""
    found: list[int] = []
    build = module._built

    def noted() -> object:
        found.append(1)
        return build()

    monkeypatch.setattr(module, "_built", noted)
    return found


def kept(base: Path) -> list[Path]:
    return list((base / "lbgen" / f"kept-{__version__}").glob("*"))


def again() -> None:
    """What a new process does."""
    module.validator.cache_clear()
    topology = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 80}},
        "routes": [{"name": "r", "forward": "p"}],
    }
    assert isinstance(module.validator().validate_python(topology), TopologyModel)


def test_built_once_then_read(base: Path, built: list[int]) -> None:
    again()
    assert (len(built), len(kept(base))) == (1, 1)
    again()
    assert (len(built), len(kept(base))) == (1, 1)


def test_a_broken_file_is_made_again(base: Path, built: list[int]) -> None:
    again()
    (file,) = kept(base)
    key = file.read_bytes()[:32]
    for content in (b"no key", b"", key, key + b"no pickle", key + pickle.dumps({"type": "no such"})):
        file.write_bytes(content)
        again()
        assert file.read_bytes() != content
    assert len(built) == 6


def test_other_code_has_another_schema(base: Path, built: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    again()
    monkeypatch.setattr("pydantic_core.__version__", "0")
    again()
    assert (len(built), len(kept(base))) == (2, 1)
    code = Path(module.__file__).with_name("route.py")
    was = module._key()
    stat = Path.stat

    def changed(path: Path, **how: bool) -> os.stat_result:
        found = stat(path, **how)
        return os.stat_result([*found[:8], found.st_mtime + 1, found.st_ctime]) if path == code else found

    monkeypatch.setattr(Path, "stat", changed)
    assert module._key() != was


def test_without_a_folder_it_is_built(base: Path, built: list[int]) -> None:
    (base / "lbgen").write_text("a file in its place")
    again()
    assert len(built) == 1


def test_a_disk_that_takes_nothing_costs_time_only(
    base: Path, built: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    again()
    assert (len(built), kept(base)) == (1, [])


def outcome(check: Callable[[object], TopologyModel], data: object) -> object:
    try:
        return check(data)
    except ValidationError as error:
        return error.errors(include_url=False)


def test_it_finds_what_the_models_find(base: Path) -> None:
    again()
    again()
    read = [
        read_file(path).data for path in (*WRONG, *sorted((ROOT / "examples").rglob("topology.yaml"))) if usable(path)
    ]
    assert len(read) > 50
    read.append(read_bytes(rich_topology(40).encode(), "rich").data)
    for data in read:
        assert repr(outcome(module.validator().validate_python, data)) == repr(
            outcome(pydantic_model(TopologyModel).model_validate, data)
        )


def usable(path: Path) -> bool:
    try:
        read_file(path)
    except lbgen.LbgenError:
        return False
    return True


def test_no_field_is_taken_for_a_note_of_pydantic() -> None:
    schema = {"type": "model-fields", "fields": {"metadata": {"type": "int"}, "type": {"type": "str", "metadata": {}}}}
    expected = {"type": "model-fields", "fields": {"metadata": {"type": "int"}, "type": {"type": "str"}}}
    assert module._for_checks(schema) == expected
    assert len(models_of_topology()) > 40
