"""Real servers for clients of layer 4: PostgreSQL, Redis and MariaDB, each with a database of its own, for a while."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.runtime.common.ports import accepts
from tests.clients.place import program, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START_SECONDS = 60


@contextmanager
def postgres(folder: Path, hosts: Sequence[str], port: int) -> Iterator[None]:
    """The user `postgres` needs no password."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or pytest.skip("no PostgreSQL server here")
    data = folder / "postgres"
    data.mkdir()
    user = _become("postgres", data)
    done = run(*user, f"{found[-1]}/initdb", "-D", data, "-A", "trust", "-U", "postgres", "-N", seconds=START_SECONDS)
    assert done.returncode == 0, done.stderr
    (data / "pg_hba.conf").write_text("host all all all trust\n", encoding="utf-8")
    options = (f"listen_addresses={','.join(hosts)}", f"port={port}", "unix_socket_directories=", "fsync=off")
    with _serving((*user, f"{found[-1]}/postgres", "-D", data, *(f"--{each}" for each in options)), port):
        yield


@contextmanager
def redis(folder: Path, hosts: Sequence[str], port: int) -> Iterator[None]:
    argv = (program("redis-server"), "--port", port, "--bind", *hosts, "--save", "", "--protected-mode", "no")
    with _serving((*argv, "--dir", folder), port):
        yield


@contextmanager
def mysql(folder: Path, hosts: Sequence[str], port: int) -> Iterator[None]:
    """MariaDB; the user `lbgen` needs no password."""
    server, data = program("mariadbd"), folder / "mysql"
    data.mkdir()
    how = ("--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db")
    made = run(program("mariadb-install-db"), *how, *_as_user("mysql", data), seconds=START_SECONDS)
    assert made.returncode == 0, made.stdout[-1000:] + made.stderr[-1000:]
    first = data / "first.sql"
    first.write_text(
        "CREATE DATABASE shop;\nCREATE USER lbgen@'%';\nGRANT ALL ON shop.* TO lbgen@'%';\n", encoding="utf-8"
    )
    options = (f"--datadir={data}", f"--bind-address={','.join(hosts)}", f"--port={port}", f"--socket={data}/s")
    more = (
        f"--init-file={first}",
        "--innodb-flush-log-at-trx-commit=0",
        "--skip-name-resolve",
        *_as_user("mysql", data),
    )
    with _serving((server, "--no-defaults", *options, *more), port):
        yield


def _become(user: str, folder: Path) -> tuple[str, ...]:
    """The words that run a command as `user`, whose folder it becomes: servers refuse to be root."""
    if os.geteuid() != 0:
        return ()
    shutil.chown(folder, user)
    return (program("setpriv"), f"--reuid={user}", f"--regid={user}", "--clear-groups")


def _as_user(user: str, folder: Path) -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    shutil.chown(folder, user)
    return (f"--user={user}",)


@contextmanager
def _serving(argv: Sequence[object], port: int) -> Iterator[None]:
    words = [str(each) for each in argv]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/") as process:
        try:
            end = time.monotonic() + START_SECONDS
            while not accepts("127.0.0.1", port):
                if process.poll() is not None or time.monotonic() > end:
                    assert process.stderr is not None
                    raise AssertionError(f"{words[0]} does not serve: {process.stderr.read()[-1000:]!r}")
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
