"""Curves of TLS: each engine's own unless the topology lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.runtime.common.certificates import write_self_signed

if TYPE_CHECKING:
    from pathlib import Path

LINES = {
    "nginx": "ssl_ecdh_curve P-384:X25519;",
    "haproxy": "curves P-384:X25519",
    "envoy": "ecdh_curves: [P-384, X25519]",
    "traefik": "curvePreferences: [CurveP384, X25519]",
}


def text(folder: Path, engine: str, tls: dict[str, Any]) -> str:
    certificate = folder / "a.crt"
    write_self_signed(certificate, folder / "a.crt.key", ("a.example",))
    pair = {"cert": str(certificate), "key": f"{certificate}.key"}
    data = {
        "version": 1,
        "name": "tls",
        "listeners": {"web": {"port": 443, "tls": {"certificates": [pair], **tls}}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "all", "forward": "p"}],
    }
    files = lbgen.render(lbgen.plan(lbgen.load(data)), engine=engine).files
    return " ".join("".join(file.text for file in files).replace(str(folder), "").split())


@pytest.mark.parametrize("engine", LINES)
def test_a_list_is_written_and_none_by_default(tmp_path: Path, engine: str) -> None:
    assert LINES[engine] in text(tmp_path, engine, {"curves": ["P-384", "X25519"]})
    assert engine == "envoy" or "urve" not in text(tmp_path, engine, {})  # Envoy's own list lacks P-384


def test_the_hybrid_one_is_refused_where_the_library_may_lack_it(tmp_path: Path) -> None:
    hybrid = {"curves": ["X25519MLKEM768", "X25519"]}
    for engine in ("envoy", "traefik"):
        assert "X25519MLKEM768" in text(tmp_path, engine, hybrid)
    for engine in ("nginx", "haproxy"):
        with pytest.raises(lbgen.LbgenError, match=r"OpenSSL 3\.5"):
            text(tmp_path, engine, hybrid)
