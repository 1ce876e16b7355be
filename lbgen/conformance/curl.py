"""A request as a curl command line, to repeat it by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.conformance.transport import PLAIN, Transport
from lbgen.plan.request import Request

if TYPE_CHECKING:
    from lbgen.conformance.http1_client import Address

_SHORT = 2000  # bytes of a body that a line holds


def curl(address: Address, request: Request, transport: Transport = PLAIN) -> str:
    """A command line that sends the same request (as nearly as curl can)."""
    words = ["curl", "-isS", "--path-as-is"]
    if request.method == "HEAD":
        words.append("-I")
    elif request.method != "GET":
        words += ["-X", request.method]
    if request.version == "1.0":
        words.append("--http1.0")
    if request.client not in ("", address[0]) and not transport.proxy:
        words += ["--interface", request.client]
    if not any(n.lower() == "host" for n, _ in request.headers):
        words += ["-H", "Host:"]
    for name, value in request.headers:
        words += ["-H", f"{name}: {value}" if value else f"{name};"]
    if request.body:
        words += ["--data-binary", _body(request.body)]
    place = f"{address[0]}:{address[1]}"
    if transport.http2:
        words.append("--http2" if transport.tls is not None else "--http2-prior-knowledge")
    if transport.proxy:
        words += ["--haproxy-protocol", "--haproxy-clientip", request.client]
    if transport.tls is not None:
        words += ["--cacert", transport.tls.ca] if transport.tls.ca else ["--insecure"]
        words += [f"--tlsv{transport.tls.min}"] if transport.tls.min != "1.2" else []
        words += ["--tls-max", transport.tls.max] if transport.tls.max != "1.3" else []
        if transport.tls.certificate:
            words += ["--cert", f"{transport.tls.certificate}.crt", "--key", f"{transport.tls.certificate}.key"]
        if transport.tls.sni is not None:
            words += ["--resolve", f"{transport.tls.sni}:{address[1]}:{address[0]}"]
            place = f"{transport.tls.sni}:{address[1]}"
    scheme = "http" if transport.tls is None else "https"
    if request.target.startswith("/"):
        words.append(f"{scheme}://{place}{request.target}")
    else:
        words += ["--request-target", request.target, f"{scheme}://{place}/"]
    return " ".join(_word(word) for word in words)


def _body(body: bytes) -> str:
    """The body, or where to find one that is as long."""
    if len(body) <= _SHORT:
        return body.decode("latin-1")
    return f"@FILE-OF-{len(body)}-BYTES"


def _word(word: str) -> str:
    if word and all((c.isascii() and c.isalnum()) or c in "-_./:=@%+," for c in word):
        return word
    if any(not 0x20 <= ord(c) < 0x7F for c in word):
        return "$'" + "".join(_shell(c) for c in word) + "'"
    return "'" + word.replace("'", "'\\''") + "'"


def _shell(char: str) -> str:
    if char in "'\\":
        return "\\" + char
    return char if 0x20 <= ord(char) < 0x7F else f"\\x{ord(char):02x}"
