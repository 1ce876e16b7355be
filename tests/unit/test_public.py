"""The public names, pinned; diagnostics; and engines as folders, templates and entry points."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lbgen
from lbgen.codes import CODES
from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, Span, UsageError
from lbgen.engines.api import engine, engine_names, engines, target_version
from lbgen.plan.features import all_features
from lbgen.resources import folder

PUBLIC = [
    "Diagnostic",
    "EngineError",
    "Exported",
    "LbgenError",
    "Outcome",
    "Plan",
    "Rendered",
    "Report",
    "Request",
    "Severity",
    "Span",
    "Stack",
    "Tier",
    "Topology",
    "UsageError",
    "bench",
    "check",
    "config",
    "diff",
    "explain",
    "export",
    "load",
    "plan",
    "preview",
    "reload",
    "render",
    "simulate",
    "tiers",
    "up",
    "verify",
]


def test_public_names_are_pinned_and_all_resolve():
    assert lbgen.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(lbgen, name) is not None
    with pytest.raises(AttributeError):
        _ = lbgen.nothing


def test_public_functions_say_what_they_raise():
    functions = {name: getattr(lbgen, name) for name in PUBLIC if name[0].islower()}
    functions["plan"] = type(lbgen.plan).__call__
    functions["bench"] = type(lbgen.bench).__call__
    assert {name for name, each in functions.items() if "Raises " not in (each.__doc__ or "")} == set()
    assert all(inspect.isfunction(each) for each in functions.values())


@pytest.mark.parametrize("name", [name for name in PUBLIC if name[0].isupper()])
def test_public_classes_and_their_methods_have_docstrings(name):
    kind = getattr(lbgen, name)
    own = {key: each for key, each in vars(kind).items() if not key.startswith("_")}
    members = {key: each for key, each in own.items() if inspect.isfunction(each) or isinstance(each, property)}
    assert kind.__doc__
    assert "(self" not in kind.__doc__  # what dataclass makes where there is none
    assert {key for key, each in members.items() if not inspect.getdoc(each)} == set()


def test_the_version_is_the_package_s():
    metadata = tomllib.loads((Path(lbgen.__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert lbgen.__version__ == metadata["project"]["version"]


def test_importing_lbgen_is_cheap():
    code = "import sys, lbgen; print([m for m in ('pydantic', 'jinja2', 'click', 'rich', 'yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_folders_templates_and_entry_points_agree():
    package = Path(lbgen.__file__).parent / "engines"
    modules = {p.name for p in package.iterdir() if (p / "__init__.py").is_file()}
    templates = {p.name for p in folder("templates").iterdir() if p.is_dir()}
    hint = "run pip install -e . again"
    assert modules <= set(engine_names()), hint
    assert templates - {"export"} <= modules, hint  # of lbgen.exporters


def test_every_engine_answers_every_feature_in_every_version():
    for target in engines().values():
        for version in target.versions:
            for feature in all_features():
                assert target.verdict(feature, version), (target.name, version, feature)


def test_unknown_engines_and_versions_say_what_there_is():
    with pytest.raises(UsageError, match="installed: aws, envoy, haproxy, keepalived, nftables, nginx, traefik"):
        engine("apache")
    nginx = engine("nginx")
    assert target_version(nginx, None) == nginx.versions[0]
    assert target_version(nginx, "1.22.1") == "1.22"
    with pytest.raises(UsageError, match=r"nginx 1\.3 is not supported; one of: 1\.31, "):
        target_version(nginx, "1.3")


def test_diagnostics_print_place_code_field_message_and_hint():
    finding = Diagnostic("LB104", "port 70000 is above 65535", Span("shop.yaml", 5, 25), "listeners.web.port")
    assert str(finding) == "shop.yaml:5:25: error LB104 listeners.web.port: port 70000 is above 65535"
    with pytest.raises(KeyError):
        Diagnostic("LB999", "not registered")
    assert all(code.startswith("LB") and len(code) == 5 for code in CODES)


def test_errors_sort_their_findings_and_carry_exit_codes():
    a, b = Diagnostic("LB101", "a", Span("f", 2, 1)), Diagnostic("LB102", "b", Span("f", 1, 9))
    assert [d.message for d in LbgenError([a, b]).diagnostics] == ["b", "a"]
    assert (LbgenError(a).exit_code, UsageError(a).exit_code, EngineError(a).exit_code) == (1, 2, 3)
