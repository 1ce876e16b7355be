"""Every hand-tuned configuration of the benchmark is accepted by its engine and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from lbgen.engines.api import engine
from lbgen.runtime.common.executables import candidates
from tests.bench import load
from tests.bench.cases import TOPOLOGIES
from tests.bench.proxies import (
    ENGINES,
    SHOP,
    copy_expert,
    endpoint_binary,
    find_builds,
    plan_of,
    running,
    write_certificate,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("bench")]
CASES = ("minimal", "production", "tls-minimal", "shop")


@pytest.mark.parametrize("name", ENGINES)
def test_experts_are_accepted_and_answer(name: str, tmp_path: Path) -> None:
    if not candidates(engine(name)) or not candidates(engine("nginx")):
        pytest.skip(f"no executable of {name} or of nginx, the endpoint")
    tmp_path.chmod(0o755)
    write_certificate(tmp_path)
    with load.endpoint(endpoint_binary(), tmp_path / "endpoint"):
        for build in find_builds((name,), {}):
            for case in CASES:
                text = (SHOP if case == "shop" else TOPOLOGIES / f"{case}.yaml").read_text(encoding="utf-8")
                plan = plan_of(yaml.safe_load(text), build, base=tmp_path)
                proxy = copy_expert(case, plan, build, tmp_path / f"{build.label}-{case}")
                with running(proxy) as one:
                    if case == "shop":  # its endpoints are on another network; what it answers itself shows the routes
                        load.wait_until_serving(one, "shop.example", "/healthz")
                    else:
                        load.wait_until_serving(one)
                    assert "WARN" not in one.log().upper() or name == "envoy", one.log()
