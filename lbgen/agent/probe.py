"""One check of an endpoint: a connection, or a GET over HTTP/1.1 or HTTP/2; TLS and PROXY header where configured."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from lbgen.agent.proxy_header import own_proxy_header
from lbgen.engines.agent_spec import CheckedPool, CheckTls, Target

_HEAD = 65_536  # bytes read of a response
_AGENT = "lbgen-agent"


class _AnswerError(Exception):
    """The endpoint's answer is not the expected one."""


def tls_context(tls: CheckTls, folder: Path, *, http2: bool) -> ssl.SSLContext:
    """The TLS context for a pool; relative files are in `folder`. Raises OSError, also for files that are not PEM."""
    made = ssl.create_default_context(cafile=None if tls.ca is None else str(folder / tls.ca))
    if not tls.verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if tls.certificate is not None:
        made.load_cert_chain(folder / tls.certificate, None if tls.key is None else folder / tls.key)
    made.set_alpn_protocols(["h2"] if http2 else ["http/1.1"])
    return made


async def check(pool: CheckedPool, target: Target, tls: ssl.SSLContext | None) -> str:
    """Check `target` once: an empty text on success, else the error in a few words."""
    try:
        async with asyncio.timeout(pool.timeout / 1000):
            await _ask(pool, target, tls)
    except TimeoutError:
        return f"no answer within {pool.timeout} ms"
    except _AnswerError as error:
        return str(error)
    except ssl.SSLCertVerificationError as error:
        return f"certificate: {error.verify_message}"
    except ssl.SSLError as error:
        return f"TLS: {error.reason or error}"
    except OSError as error:
        # asyncio puts the address into strerror; the errno of a failed lookup is not the system's.
        known = error.errno is not None and error.errno > 0
        return os.strerror(error.errno) if known else error.strerror or str(error)  # type: ignore[arg-type]
    except asyncio.IncompleteReadError:
        return "closed before it answered"
    except asyncio.LimitOverrunError:
        return "a head that is too long"
    except h2.exceptions.ProtocolError as error:
        return f"no HTTP/2: {error}"
    return ""


async def _ask(pool: CheckedPool, target: Target, tls: ssl.SSLContext | None) -> None:
    source = (pool.source, 0) if pool.source else None
    reader, writer = await asyncio.open_connection(target.host, target.port, limit=_HEAD, local_addr=source)
    try:
        if pool.proxy_protocol is not None:
            writer.write(own_proxy_header(pool.proxy_protocol, writer.get_extra_info("socket")))
        if tls is not None:
            name = (pool.tls.server_name if pool.tls is not None else None) or target.host
            await writer.start_tls(tls, server_hostname=name)
        if pool.path is not None:
            get = _http2 if pool.http2 else _http1
            authority = _authority(target, secure=tls is not None)
            status = await get(reader, writer, pool.path, authority, secure=tls is not None)
            if not any(first <= status <= last for first, last in pool.statuses):
                raise _AnswerError(f"status {status}")
    finally:
        writer.transport.abort()  # discard what the endpoint still sends


def _authority(target: Target, *, secure: bool) -> str:
    host = f"[{target.host}]" if ":" in target.host else target.host
    return host if target.port == (443 if secure else 80) else f"{host}:{target.port}"


async def _http1(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, authority: str, *, secure: bool
) -> int:
    del secure
    lines = (f"GET {path} HTTP/1.1", f"Host: {authority}", f"User-Agent: {_AGENT}", "Accept: */*", "Connection: close")
    writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1"))
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        version, _, rest = head.partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise _AnswerError("an answer that is no HTTP/1.1")
        status = int(rest[:3])
        if status >= 200 or status == 101:
            return status


async def _http2(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, authority: str, *, secure: bool
) -> int:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="latin-1"))
    connection.initiate_connection()
    scheme = "https" if secure else "http"
    headers = [
        (":method", "GET"),
        (":scheme", scheme),
        (":authority", authority),
        (":path", path),
        ("user-agent", _AGENT),
    ]
    connection.send_headers(1, headers, end_stream=True)
    while True:
        writer.write(connection.data_to_send())
        data = await reader.read(_HEAD)
        if not data:
            raise _AnswerError("closed before it answered")
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                status = next(value for name, value in event.headers if name in (":status", b":status"))
                connection.close_connection()
                writer.write(connection.data_to_send())
                await writer.drain()
                return int(status)
            if isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
                raise _AnswerError("reset before it answered")
