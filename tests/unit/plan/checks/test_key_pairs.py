"""Certificates and keys that do not fit, and certificates that are not valid today, with the place in the file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

import lbgen
from lbgen.diagnostics import EngineError, Severity
from lbgen.plan.checks import key_pairs
from lbgen.plan.resolve import findings
from lbgen.runtime.common import certificates
from lbgen.runtime.common.readiness import refused_files

TEXT = """\
version: 1
name: pairs
listeners:
  web:
    port: 8443
    tls:
      certificates:
        - cert: {0}
          key: {1}
pools: {{ app: {{ endpoints: [{{ address: "10.0.0.1:80" }}] }} }}
routes: [{{ name: all, forward: app }}]
"""


@pytest.fixture
def found(tmp_path):
    shutil.copytree(certificates.temporary_certificates(), tmp_path / "c")

    def look(cert, key):
        path = tmp_path / "t.yaml"
        path.write_text(TEXT.format(f"c/{cert}", f"c/{key}"))
        return [x for x in findings(lbgen.load(path), files=True) if x.severity is not Severity.ADVICE]

    return look


def test_a_pair_that_fits_is_no_finding(found):
    assert found("shop.crt", "shop.key") == []
    assert found("api.crt", "api.key") == []


def test_a_key_of_another_certificate(found):
    [one] = found("shop.crt", "api.key")
    assert (one.code, one.severity) == ("LB427", Severity.ERROR)
    assert one.field == "listeners.web.tls.certificates[0].key"
    assert (one.span.line, one.span.column) == (9, 16)
    assert 'the key "c/api.key" does not belong to the certificate "c/shop.crt"' in one.message
    assert one.hint


def test_a_file_without_a_key_and_one_with_a_passphrase(found, tmp_path):
    assert "holds no private key in PEM form" in found("shop.crt", "shop.crt")[0].message
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key((tmp_path / "c/shop.key").read_bytes(), None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    text = key.private_bytes(*form, serialization.BestAvailableEncryption(b"secret"))
    (tmp_path / "c/locked.key").write_bytes(text)
    [one] = found("shop.crt", "locked.key")
    assert one.code == "LB427"
    assert "is encrypted" in one.message


def test_a_key_in_one_file_with_its_certificate(found, tmp_path):
    both = (tmp_path / "c/shop.crt").read_bytes() + (tmp_path / "c/shop.key").read_bytes()
    (tmp_path / "c/both.pem").write_bytes(both)
    assert found("both.pem", "both.pem") == []


def test_a_certificate_that_is_not_valid_today_or_not_for_long(found, tmp_path, monkeypatch):
    names = ("shop.crt", "shop.key")

    class Clock:
        days = 0

        @classmethod
        def now(cls, zone):
            return datetime.now(zone) + timedelta(days=cls.days)

    monkeypatch.setattr(key_pairs, "datetime", Clock)
    assert found(*names) == []
    certificate = x509.load_pem_x509_certificate((tmp_path / "c/shop.crt").read_bytes())
    left = (certificate.not_valid_after_utc - datetime.now(UTC)).days
    Clock.days = left - 31
    assert found(*names) == []
    soon = (left - 8, "expires in 8 days, on ")
    for Clock.days, words in ((-400, "is not valid before"), (400, "expired on"), soon):
        [one] = found(*names)
        assert (one.code, one.severity) == ("LB428", Severity.WARNING)
        assert (one.span.line, one.field) == (8, "listeners.web.tls.certificates[0].cert")
        assert words in one.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take rights away from itself")
def test_a_key_that_cannot_be_read_is_named():
    """Root reads everything: a child without that right looks. It may not read the folders of Python and of this
    checkout either, so that it imports all modules before."""
    code = (
        "import os, sys, lbgen, lbgen.codes; from lbgen.plan.checks import find_file_problems as find; "
        "t = lbgen.load(sys.argv[1]); find(t); os.setgid(65534); os.setuid(65534); print(*find(t))"
    )
    with tempfile.TemporaryDirectory(dir="/tmp") as made:  # others may enter it
        place = Path(made)
        place.chmod(0o755)
        shutil.copytree(certificates.temporary_certificates(), place / "c")
        (place / "t.yaml").write_text(TEXT.format("c/shop.crt", "c/shop.key"))
        argv = [sys.executable, "-c", code, str(place / "t.yaml")]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "t.yaml:9:16: error LB211 listeners.web.tls.certificates[0].key" in done.stdout
    assert 'the file "c/shop.key" cannot be read: Permission denied; make ' in done.stdout


def test_up_and_reload_name_the_place_before_anything_happens(found, tmp_path):
    found("shop.crt", "api.key")
    for act in (lbgen.up, lbgen.reload):
        with pytest.raises(EngineError, match=r"t\.yaml:9:16: error LB427") as raised:
            act(lbgen.load(tmp_path / "t.yaml"))
        assert raised.value.exit_code == 3


def test_what_a_checker_says_of_a_file_gets_its_place(found, tmp_path):
    found("shop.crt", "shop.key")
    plan = lbgen.plan(lbgen.load(tmp_path / "t.yaml"))
    said = 'SSL_CTX_use_PrivateKey("/tmp/x/tls/shop.crt.key") failed'
    key, other = refused_files(plan, "nginx 1.31.3", (said, "unknown directive"))
    assert str(key).startswith(f"{tmp_path}/t.yaml:9:16: error LB401 listeners.web.tls.certificates[0].key: nginx")
    assert key.hint == f"the file is {tmp_path}/c/shop.key"
    assert str(other) == "error LB401: nginx 1.31.3: unknown directive"
