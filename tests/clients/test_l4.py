"""Clients of databases and of DNS, through listeners of layer 4."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.clients.place import Both, Place, program, run

pytestmark = [pytest.mark.engines, pytest.mark.root]
SECONDS = 30


@pytest.fixture
def both(places, subject) -> Both:
    return places.l4(subject)


def said(*argv: object, **given: Any) -> str:
    done = run(*argv, seconds=SECONDS, **given)
    assert done.returncode == 0, done.stderr[-1000:]
    return done.stdout


def at(both: Both, server: str) -> Both:
    """Skips the test without the server, or without a listener for it."""
    for place in (both.direct, both.through):
        if server not in place.ports:
            pytest.skip(place.gaps.get(server, f"{place.label} has no listener for it"))
    return both


def psql(place: Place, statement: str) -> str:
    where = ("-h", place.host, "-p", place.ports["postgres"], "-U", "postgres")
    return said(program("psql"), "-X", "-A", "-t", *where, "-c", statement)


def test_psql_query(both: Both) -> None:
    statement = "SELECT count(*), sum(length(repeat('x', n))) FROM generate_series(1, 2000) n"
    assert at(both, "postgres").same(psql, statement).strip() == "2000|2001000"


def test_psql_large_result(both: Both) -> None:
    got = at(both, "postgres").same(psql, "SELECT repeat('0123456789', 100) FROM generate_series(1, 5000)")
    assert len(got) > 5_000_000


def test_psql_copy(both: Both) -> None:
    """Rows go in on one connection and are counted on another."""
    place = at(both, "postgres").through
    psql(place, "DROP TABLE IF EXISTS goods; CREATE TABLE goods (id int, name text)")
    where = ("-h", place.host, "-p", place.ports["postgres"], "-U", "postgres", "-X")
    rows = "".join(f"{number}\tname {number}\n" for number in range(50_000))
    said(program("psql"), *where, "-c", "COPY goods FROM STDIN", input=rows)
    assert psql(place, "SELECT count(*), max(name) FROM goods").strip() == "50000|name 9999"


def test_psql_error(both: Both) -> None:
    place = at(both, "postgres").through
    done = run(program("psql"), "-X", "-h", place.host, "-p", place.ports["postgres"], "-U", "postgres", "-c", "SELEC")
    assert 'syntax error at or near "SELEC"' in done.stderr


def test_psql_killed(both: Both) -> None:
    """A client that is killed in a query: the server ends it, and the next one is served."""
    place = at(both, "postgres").through
    argv = [program("psql"), "-X", "-h", place.host, "-p", str(place.ports["postgres"]), "-U", "postgres"]
    statement = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"
    with subprocess.Popen([*argv, "-c", "SELECT pg_sleep(20)"], stdout=subprocess.DEVNULL) as process:
        both.until(lambda: psql(place, statement).strip() == "1")
        process.kill()
    psql(both.direct, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'")
    assert psql(place, "SELECT 1").strip() == "1"


def test_pgbench(both: Both) -> None:
    place = at(both, "postgres").through
    where = ("-h", place.host, "-p", place.ports["postgres"], "-U", "postgres")
    said(program("pgbench"), *where, "-i", "-q", "postgres")
    got = said(program("pgbench"), *where, "-c", 8, "-t", 25, "-C", "postgres")
    assert "number of transactions actually processed: 200/200" in got
    assert "number of failed transactions: 0" in got


def redis_cli(place: Place, *words: object, **given: Any) -> str:
    return said(program("redis-cli"), "-h", place.host, "-p", place.ports["redis"], *words, **given)


def test_redis_commands(both: Both) -> None:
    place = at(both, "redis").through
    lines = "".join(f"SET key:{number} value:{number}\n" for number in range(2000))
    assert redis_cli(place, input=lines) == "OK\n" * 2000
    assert both.same(redis_cli, "GET", "key:1999") == "value:1999\n"
    redis_cli(place, "-x", "SET", "large", input="x" * 3_000_000)
    assert redis_cli(place, "STRLEN", "large") == "3000000\n"


def test_redis_subscribe(both: Both) -> None:
    """A message arrives on a connection that waits for it."""
    place = at(both, "redis").through
    argv = [program("redis-cli"), "-h", place.host, "-p", str(place.ports["redis"]), "SUBSCRIBE", "news"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        both.until(lambda: redis_cli(both.direct, "PUBLISH", "news", "hello") == "1\n")
        assert process.stdout is not None
        heard = [process.stdout.readline().strip() for _ in range(6)]
        process.kill()
    assert heard[-3:] == ["message", "news", "hello"]


def mariadb(place: Place, statement: str) -> str:
    where = ("-h", place.host, "-P", place.ports["mysql"], "--protocol=tcp", "-u", "lbgen", "shop")
    return said(program("mariadb"), "--no-defaults", "-N", "-B", *where, input=statement)


def test_mysql_queries(both: Both) -> None:
    place = at(both, "mysql").through
    mariadb(place, "DROP TABLE IF EXISTS goods; CREATE TABLE goods (id INT, name LONGTEXT)")
    rows = ",".join(f"({number}, 'name {number}')" for number in range(5000))
    mariadb(place, f"INSERT INTO goods VALUES {rows}, (-1, REPEAT('x', 3000000))")  # noqa: S608 - numbers
    assert both.same(mariadb, "SELECT COUNT(*), SUM(LENGTH(name)) FROM goods") == "5001\t3043890\n"


def dig(place: Place, *words: str) -> str:
    where = (f"@{place.host}", "-p", place.ports["dns"], "+tries=2", "+time=3")
    return said(program("dig"), *where, "+short", *words)


@pytest.mark.parametrize("how", [(), ("+tcp",)], ids=["udp", "tcp"])
@pytest.mark.parametrize("kind", ["A", "TXT"])
def test_dig(both: Both, kind: str, how: tuple[str, ...]) -> None:
    """TXT: 1,200 bytes, in one datagram."""
    if not how:
        at(both, "dns-udp")
    got = at(both, "dns").same(dig, kind, "shop.example", *how)
    assert got == "192.0.2.53\n" if kind == "A" else len(got) > 1200


def test_dig_many(both: Both) -> None:
    names = [word for number in range(100) for word in (f"name-{number}.example", "A")]
    assert dig(at(at(both, "dns-udp"), "dns").through, *names) == "192.0.2.53\n" * 100
