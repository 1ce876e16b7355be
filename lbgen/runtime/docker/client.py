"""Connect to the docker daemon, and translate its errors into findings."""

from __future__ import annotations

import os
import socket
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from errno import EMFILE, ENFILE, ENOMEM
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.common.processes import defer_signals
from lbgen.system_errors import remedy

if TYPE_CHECKING:
    from docker import DockerClient

OLDEST_API = (1, 41)  # Docker 20.10: what this is tested with
DOCKER_SOCKET = "/var/run/docker.sock"
_SOCKETS = (DOCKER_SOCKET, "/run/docker.sock")
_HELLO_SECONDS = 15  # for the version, which a healthy daemon returns at once
_SECONDS = 60
_NO_ADDRESS = ("Invalid bind address", "Invalid path", "Invalid port", "Port out of range", "Unsupported")  # the SDK's
_START = "start it (systemctl start docker), set DOCKER_HOST, or use --runtime local"


class DaemonFailureError(EngineError):
    """LB420: a daemon is there and fails, perhaps only for a moment."""


def is_configured() -> bool:
    """Whether a daemon is configured (DOCKER_HOST, a context) or a default socket exists."""
    named = os.environ.get("DOCKER_HOST") or os.environ.get("DOCKER_CONTEXT")
    return bool(named) or any(Path(each).exists() for each in _SOCKETS) or _context_chosen()


def _context_chosen() -> bool:
    folder = os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker"
    try:
        return "currentContext" in Path(folder, "config.json").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def connect(*, here: bool = False) -> DockerClient:
    """A client of the daemon that DOCKER_HOST, the docker context or the default socket names. `here`: it must be on
    this host, so that published ports can be reached.

    Raises EngineError LB420: the SDK is missing, no daemon answers, permission is denied, it is too old or remote.
    """
    _look_for_socket()
    try:
        import docker
        from docker.errors import DockerException, InvalidVersion
    except ImportError as missing:
        hint = "pip install 'lbgen[docker]', or use --runtime local"
        raise EngineError(Diagnostic("LB420", "the docker SDK for Python is not installed", hint=hint)) from missing
    where = _address()
    if here and where and not is_on_this_host(where):
        message = f"the docker daemon at {where} is on another host; what it publishes is not reached from here"
        hint = "run lbgen there, unset DOCKER_HOST and DOCKER_CONTEXT, or use --runtime local"
        raise EngineError(Diagnostic("LB420", message, hint=hint))
    try:
        client: DockerClient = docker.from_env(timeout=_HELLO_SECONDS)
        spoken = tuple(int(part) for part in str(client.api.api_version).split("."))
    except InvalidVersion:
        spoken = ()
    except (DockerException, OSError, KeyError, TypeError, ValueError) as error:
        raise (DaemonFailureError if _fails(error) else EngineError)(_unreachable(where, error)) from error
    if spoken < OLDEST_API:
        which = f" (API {'.'.join(map(str, spoken))})" if spoken else ""
        message = f"the docker daemon is too old{which}; lbgen needs 20.10 or newer"
        raise EngineError(Diagnostic("LB420", message, hint="update docker, or use --runtime local"))
    client.api.timeout = _SECONDS
    return client


def _look_for_socket() -> None:
    """Raise EngineError LB420 where DOCKER_HOST names a socket that is not there, which needs no SDK to be seen."""
    named = os.environ.get("DOCKER_HOST", "")
    if named.startswith("unix://"):
        try:
            os.stat(named.removeprefix("unix://"))  # noqa: PTH116  # Path.exists has an answer for other errors too
        except (FileNotFoundError, NotADirectoryError) as error:
            message = f"no docker daemon answers at {named}: {error.strerror}"
            raise EngineError(Diagnostic("LB420", message, hint=_START)) from error
        except OSError:
            return  # the SDK says why


def socket_path() -> str:
    """The daemon's socket on this host. EngineError LB420 for a daemon that has none."""
    where = _address() or f"unix://{DOCKER_SOCKET}"
    scheme, _, path = where.partition("://")
    if scheme not in ("unix", "http+unix"):
        message = f"the docker daemon at {where} has no socket here, which a container of the stack needs"
        raise EngineError(Diagnostic("LB420", message, hint="set DOCKER_HOST to unix:///PATH"))
    return path


def why_unavailable() -> Diagnostic | None:
    """LB420 when no usable daemon answers, else None."""
    try:
        connect().close()
    except EngineError as error:
        return error.diagnostics[0]
    return None


def _address() -> str:
    """The address of the configured daemon; "" = the default socket. EngineError LB420 for an unknown context."""
    from docker.context import ContextAPI

    if host := os.environ.get("DOCKER_HOST"):
        return host
    name = os.environ.get("DOCKER_CONTEXT")
    try:
        found = ContextAPI.get_context(name)
    except Exception as error:  # the SDK raises what its parser of the file meets
        raise EngineError(Diagnostic("LB420", f"the docker context cannot be read: {error}", hint=_CONTEXTS)) from error
    if found is None:
        message = f"there is no docker context {name!r}" if name else "the docker context in use does not exist"
        raise EngineError(Diagnostic("LB420", message, hint=_CONTEXTS))
    return str(found.Host or "")


_CONTEXTS = "`docker context ls` shows which there are; unset DOCKER_CONTEXT, or use --runtime local"


def is_on_this_host(address: str) -> bool:
    """Whether a daemon's address is a local socket or an address of this host."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme in ("unix", "http+unix", "npipe") or not parts.hostname:
        return True
    try:
        found = socket.getaddrinfo(parts.hostname, 0, type=socket.SOCK_STREAM)
    except OSError:
        return True  # no daemon answers there, which `connect` reports
    return any(_is_own_address(family, place[0]) for family, _, _, _, place in found)


def _is_own_address(family: int, host: object) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((str(host), 0))
        except OSError:
            return False
    return True


def _unreachable(where: str, error: Exception) -> Diagnostic:
    place, text = where or "the default socket", str(error)
    limit = _limit(error)
    if limit is not None:
        return Diagnostic("LB420", f"cannot ask the docker daemon at {place}: {limit.strerror}", hint=remedy(limit))
    if "Permission denied" in text:
        hint = "add yourself to the group docker (and log in again), run as root, or use --runtime local"
        return Diagnostic("LB420", f"no right to talk to the docker daemon at {place}", hint=hint)
    if any(each in text for each in _NO_ADDRESS):
        hint = "write unix:///PATH, tcp://HOST:PORT or ssh://USER@HOST, unset it, or use --runtime local"
        return Diagnostic("LB420", f"DOCKER_HOST={place} is no address of a docker daemon", hint=hint)
    if "SSL" in text or "TLS" in text or "HTTPS" in text or "Client sent an HTTP request" in text:
        hint = "set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH for its certificates, or use --runtime local"
        return Diagnostic("LB420", f"no TLS with the docker daemon at {place}: {_cause(error)}", hint=hint)
    if _server_error(error):
        return Diagnostic("LB420", f"the docker daemon at {place} answers with an error: {text}", hint=_SEE)
    if "timed out" in text:
        hint = "is it alive? restart it (systemctl restart docker), or use --runtime local"
        return Diagnostic("LB420", f"the docker daemon at {place} does not answer in {_HELLO_SECONDS} s", hint=hint)
    if any(isinstance(each, KeyError | TypeError | ValueError) for each in _chain(error)):
        return Diagnostic("LB420", f"what answers at {place} is no docker daemon", hint=_START)
    return Diagnostic("LB420", f"no docker daemon answers at {place}: {_cause(error)}", hint=_START)


def _fails(error: BaseException) -> bool:
    """Whether a daemon is there: it takes the connection and answers with an error, late or not at all."""
    lost = any(isinstance(each, ConnectionResetError | BrokenPipeError | TimeoutError) for each in _chain(error))
    return lost or "timed out" in str(error) or _limit(error) is not None or _server_error(error)


def _server_error(error: BaseException) -> bool:
    from docker.errors import APIError

    return any(isinstance(each, APIError) and each.is_server_error() for each in _chain(error))


def _cause(error: BaseException) -> str:
    """The innermost reason, in at most 200 characters."""
    chain = _chain(error)
    said = [each.strerror for each in chain if isinstance(each, OSError) and each.strerror]
    return str((said or [str(chain[-1])])[-1] or type(chain[-1]).__name__).splitlines()[0][:200]


def _limit(error: BaseException) -> OSError | None:
    """The cause, when it is a limit of this process (descriptors, memory)."""
    return next((x for x in _chain(error) if isinstance(x, OSError) and x.errno in (EMFILE, ENFILE, ENOMEM)), None)


def _chain(error: BaseException) -> list[BaseException]:
    """The error and its causes, the innermost last."""
    found = [error]
    while (further := found[-1].__cause__ or found[-1].__context__) is not None:
        found.append(further)
    return found


@contextmanager
def docker_errors(what: str, *, whole: bool = True) -> Iterator[None]:
    """Translate errors of the daemon into EngineError LB421; `what` names the operation. `whole`: defer a Ctrl-C until
    the block ends, so that no object is created unnoticed."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException, Timeout
    from urllib3.exceptions import HTTPError

    try:
        with defer_signals() if whole else nullcontext():
            yield
    except APIError as error:
        raise EngineError(Diagnostic("LB421", f"{what}: {error.explanation or error}", hint=_remedy(error))) from error
    except Timeout as error:
        message = f"{what}: the docker daemon did not answer in {_SECONDS} s"
        raise EngineError(Diagnostic("LB421", message, hint=_AGAIN)) from error
    except (
        DockerException,
        RequestException,
        HTTPError,
        HTTPException,
        OSError,
        tarfile.TarError,
    ) as error:
        limit = _limit(error)
        gone = f"the docker daemon went away ({_cause(error)})"
        message = f"{what}: {gone if limit is None else limit.strerror}"
        raise EngineError(Diagnostic("LB421", message, hint=_AGAIN if limit is None else remedy(limit))) from error


_SEE = "the daemon's own log says more (journalctl -u docker)"
_AGAIN = "once it answers, `lbgen up` puts right what is left, and `lbgen down` removes it"


def _remedy(error: Exception) -> str:
    text = str(error)
    if "no space left" in text:
        return "free some space on the daemon's disk; `docker system df` shows what takes it"
    if "port is already allocated" in text or "address already in use" in text:
        return "something else listens there: change the listener's port, or stop it"
    return _SEE
