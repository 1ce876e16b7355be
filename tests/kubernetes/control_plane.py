"""A Kubernetes API server with its store, of the programs that `build.sh` builds: it validates, and runs nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(os.environ.get("LBGEN_KUBERNETES") or ROOT / "build/kubernetes").resolve()
WHY_NONE = "" if (PROGRAMS / "kubectl").exists() else "no Kubernetes here: `make kubernetes` builds it"
SERVICES = "10.96.0"  # the network of Services' addresses
_PORT, _STORE = 16_443, 12_379
_READY_SECONDS, _END_SECONDS = 60, 5


@dataclass(frozen=True)
class Kubectl:
    """kubectl with a configuration, None for the user's own."""

    config: Path | None
    program: str = str(PROGRAMS / "kubectl")

    def run(
        self, *words: str, given: str = "", seconds: float = 120, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run it. Raises AssertionError with what it said when it fails."""
        config = ("--kubeconfig", str(self.config)) if self.config else ()
        argv = (self.program, *config, *words)
        done = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=seconds, check=False)
        assert not check or done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done

    def get(self, *words: str) -> dict[str, Any]:
        """Return what `get` prints as JSON."""
        found: dict[str, Any] = json.loads(self.run("get", *words, "--output", "json").stdout)
        return found


class Authority:
    """The cluster's certificate authority, and the files that it makes in a folder."""

    def __init__(self, folder: Path, server: str) -> None:
        self.folder, self.server = folder, server
        self._key, name = rsa.generate_private_key(65537, 2048), _name("lbgen tests", "")
        limits = x509.BasicConstraints(ca=True, path_length=None)
        made = _builder(name, name, self._key.public_key()).add_extension(limits, critical=True)
        self._certificate = made.sign(self._key, hashes.SHA256())
        self.file.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    @property
    def file(self) -> Path:
        return self.folder / "ca.crt"

    def issue(self, name: str, user: str, group: str = "", hosts: tuple[str, ...] = ()) -> None:
        """Write NAME.crt and NAME.key of a user, or of a server with those names and addresses."""
        key = rsa.generate_private_key(65537, 2048)
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        made = _builder(_name(user, group), self._certificate.subject, key.public_key()).add_extension(usages, False)
        if hosts:
            names = [x509.IPAddress(ip_address(x)) if x[0].isdigit() else x509.DNSName(x) for x in hosts]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = made.sign(self._key, hashes.SHA256())
        (self.folder / f"{name}.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
        (self.folder / f"{name}.key").write_bytes(_pem(key))

    def config(self, name: str, user: str, group: str = "") -> Path:
        """Return a kubeconfig of a user."""
        self.issue(name, user, group)
        file, cluster = self.folder / f"{name}.conf", {"server": self.server, "certificate-authority": str(self.file)}
        keys = {"client-certificate": str(self.folder / f"{name}.crt"), "client-key": str(self.folder / f"{name}.key")}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": name, "user": keys}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": name}}],
            "current-context": "tests",
        }
        file.write_text(yaml.safe_dump(content), encoding="utf-8")
        return file


def _name(user: str, group: str) -> x509.Name:
    words = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*words, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _builder(subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
    return made.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=30))


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def start(stack: ExitStack, log: Path, *argv: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """Start a program, the first word a name in `PROGRAMS` or a path, that ends with the stack."""
    program = PROGRAMS / argv[0]
    words = (*prefix, str(program) if program.exists() else argv[0], *argv[1:])
    output = stack.enter_context(log.open("wb"))
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
    stack.callback(stop, process)
    return process


def stop(process: subprocess.Popen[bytes], first: int = signal.SIGTERM) -> None:
    """End a program and wait for it."""
    process.send_signal(first)
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class ControlPlane:
    """etcd and kube-apiserver, with their authority; `kubectl` is an administrator's."""

    folder: Path
    authority: Authority
    kubectl: Kubectl


@contextmanager
def api_server(
    folder: Path, address: str = "127.0.0.1", flags: Mapping[str, str] | None = None
) -> Iterator[ControlPlane]:
    """Run etcd and kube-apiserver at an address of this host, with their files in `folder`."""
    authority = Authority(folder, f"https://{address}:{_PORT}")
    names = ("localhost", "kubernetes.default.svc", address, f"{SERVICES}.1")
    authority.issue("apiserver", "kube-apiserver", hosts=tuple(dict.fromkeys(names)))
    kubectl = Kubectl(authority.config("admin", "admin", "system:masters"))
    (folder / "accounts.key").write_bytes(_pem(rsa.generate_private_key(65537, 2048)))
    with ExitStack() as stack:
        store = {
            "data-dir": folder / "etcd",
            "listen-client-urls": f"http://127.0.0.1:{_STORE}",
            "advertise-client-urls": f"http://127.0.0.1:{_STORE}",
            "listen-peer-urls": f"http://127.0.0.1:{_STORE + 1}",
            "log-level": "error",
        }
        start(stack, folder / "etcd.log", "etcd", "--unsafe-no-fsync", *arguments(store))
        server = {
            "etcd-servers": f"http://127.0.0.1:{_STORE}",
            "secure-port": _PORT,
            "bind-address": address,
            "advertise-address": address,
            "service-cluster-ip-range": f"{SERVICES}.0/16",
            "client-ca-file": authority.file,
            "tls-cert-file": folder / "apiserver.crt",
            "tls-private-key-file": folder / "apiserver.key",
            "service-account-key-file": folder / "accounts.key",
            "service-account-signing-key-file": folder / "accounts.key",
            "service-account-issuer": "https://kubernetes.default.svc",
            "kubelet-client-certificate": folder / "admin.crt",
            "kubelet-client-key": folder / "admin.key",
            "kubelet-preferred-address-types": "InternalIP",
            "authorization-mode": "Node,RBAC",
            "allow-privileged": "true",
            **(flags or {}),
        }
        log = folder / "apiserver.log"
        process = start(stack, log, "kube-apiserver", *arguments(server))
        end = time.monotonic() + _READY_SECONDS
        while kubectl.run("get", "--raw", "/readyz", check=False).returncode:
            alive = process.poll() is None and time.monotonic() < end
            assert alive, log.read_text(encoding="utf-8")[-2000:]
            time.sleep(0.1)
        yield ControlPlane(folder, authority, kubectl)


def arguments(flags: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items()]
