"""The command line: what it prints, where, and the exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from lbgen.cli.main import VERBS, group
from tests.support.command import run_lbgen as lbgen

ROOT = Path(__file__).parents[2]
SHOP = str(ROOT / "examples/shop/topology.yaml")
POSTGRES = str(ROOT / "examples/postgres/topology.yaml")


def test_help_lists_every_verb_and_the_exit_codes():
    done = lbgen("--help")
    assert done.returncode == 0
    for verb in VERBS:
        assert f"  {verb} " in done.stdout
    assert "4  differs: engines (verify)" in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb):
    done = CliRunner().invoke(group, [verb, "--help"])
    assert done.exit_code == 0, done.output
    assert "Example" in done.output


def test_a_mistyped_verb_is_a_usage_error_with_a_hint():
    done = lbgen("rendr", SHOP)
    assert done.returncode == 2
    assert "Did you mean 'render'?" in done.stderr


def test_a_missing_file_is_one_line(tmp_path):
    done = lbgen("check", str(tmp_path / "nothing.yaml"))
    assert done.returncode == 1
    assert "LB110" in done.stderr
    assert "Traceback" not in done.stderr


def test_init_writes_once_and_what_it_writes_checks(tmp_path):
    assert lbgen("init", "t.yaml", cwd=tmp_path).returncode == 0
    again = lbgen("init", "t.yaml", cwd=tmp_path)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert lbgen("check", "t.yaml", "--no-engines", cwd=tmp_path).returncode == 0


def test_init_writes_the_schema_that_the_first_line_names_and_leaves_a_file_that_is_none(tmp_path):
    assert lbgen("init", "t.yaml", cwd=tmp_path).returncode == 0
    first = (tmp_path / "t.yaml").read_text(encoding="utf-8").partition("\n")[0]
    schema = tmp_path / re.fullmatch(r"# yaml-language-server: \$schema=(.+)", first)[1]
    assert json.loads(schema.read_text(encoding="utf-8")) == json.loads(lbgen("schema").stdout)
    schema.write_text("mine", encoding="utf-8")
    done = lbgen("init", "u.yaml", cwd=tmp_path)
    assert done.returncode == 0
    assert "stays" in done.stderr
    assert schema.read_text(encoding="utf-8") == "mine"


def test_init_of_tls_writes_a_pair_that_only_its_owner_reads_and_keeps_one_that_is_there(tmp_path):
    assert lbgen("init", "--template", "tls", "t.yaml", cwd=tmp_path).returncode == 0
    key = tmp_path / "certs/site.key"
    assert key.stat().st_mode & 0o777 == 0o600
    before = key.read_bytes()
    assert lbgen("init", "--template", "tls", "t.yaml", "--force", cwd=tmp_path).returncode == 0
    assert key.read_bytes() == before


def test_init_to_standard_output_writes_no_file(tmp_path):
    done = lbgen("init", "--template", "tls", "-", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("# yaml-language-server: $schema=")
    assert "routes:" in done.stdout
    assert not list(tmp_path.iterdir())


def test_check_json_lists_records(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("version: 1\nname: x\nlisteners: { web: { prot: 80 } }\n", encoding="utf-8")
    done = lbgen("check", str(bad), "--json")
    assert done.returncode == 1
    records = json.loads(done.stdout)
    assert {"code", "severity", "file", "line", "column", "field", "message", "hint"} == set(records[0])
    typo = next(r for r in records if r["code"] == "LB101")
    assert (typo["line"], typo["field"]) == (3, "listeners.web.prot")


def test_render_writes_what_can_and_names_the_rest(tmp_path):
    done = lbgen("render", SHOP, "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["envoy", "haproxy", "nginx", "traefik"]
    assert re.search(r"left out .*\n(  .*\n)*  nftables +it refuses ", done.stderr)


def test_render_of_a_named_engine_that_refuses_fails(tmp_path):
    done = lbgen("render", SHOP, "-e", "nftables", "-o", str(tmp_path))
    assert done.returncode == 1
    assert "LB301" in done.stderr
    assert "refused" in done.stderr
    assert not list(tmp_path.iterdir())


def test_render_json_has_files_and_verdicts_per_engine():
    records = json.loads(lbgen("render", POSTGRES, "--json").stdout)
    assert sorted(records) == ["envoy", "haproxy", "keepalived", "nftables", "nginx", "traefik"]
    assert "lbgen.nft" in records["nftables"]["files"]
    assert {"feature", "verdict", "note", "fields", "accepted", "default"} == set(records["nginx"]["verdicts"][0])


def test_an_approximate_verdict_stops_until_it_is_accepted(tmp_path):
    text = Path(SHOP).read_text(encoding="utf-8").replace("response: 10s, idle: 10s", "response: 10s, idle: 5s")
    (tmp_path / "shop.yaml").write_text(text, encoding="utf-8")
    stopped = lbgen("render", "shop.yaml", "-e", "nginx", cwd=tmp_path)
    assert stopped.returncode == 1
    assert "approximate" in stopped.stderr
    assert "--accept timeouts.idle" in stopped.stderr
    accepted = lbgen("render", "shop.yaml", "-e", "nginx", "--accept", "timeouts.idle", "-o", "out", cwd=tmp_path)
    assert accepted.returncode == 0, accepted.stderr
    assert re.search(r"approximate on nginx: .*timeouts\.idle", accepted.stderr)


def test_route_says_who_wins_and_why_not_the_others():
    done = lbgen("route", SHOP, "GET", "http://shop.example:8080/api/cart", "-H", "x-canary: true", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["route"], record["pool"], record["status"]) == ("canary", "api-v2", None)
    assert record["upstream"]["host"] == "shop.example:8080"
    assert {"rule", "route", "reason"} == set(record["losers"][0])


def test_route_says_what_is_asked_of_the_request_first():
    auth = str(ROOT / "examples/auth/topology.yaml")
    assert "\n  auth      forward: pool oauth2-proxy" in lbgen("route", auth, "GET", "http://a:8088/x").stdout
    asked, free = (
        json.loads(lbgen("route", auth, "GET", f"http://a:8088{path}", "--json").stdout) for path in ("/x", "/oauth2")
    )
    assert "x-auth-request-user" in asked["auth"]
    assert free["auth"] is None


def test_route_takes_the_target_raw_and_the_port_picks_the_listener():
    record = json.loads(lbgen("route", SHOP, "GET", "http://shop.example:8080/a//b", "--json").stdout)
    assert record["status"] == 400
    wrong = lbgen("route", SHOP, "GET", "http://shop.example:9999/")
    assert wrong.returncode == 2
    assert "web (http, port 8080)" in wrong.stderr


PORTS = """
version: 1
name: ports
listeners:
  plain: { port: 8080 }
  secure: { port: 8443, tls: { certificates: [{ cert: a.crt, key: a.key, names: [app.example] }] } }
  one: { port: 8081, address: 10.0.0.1 }
  two: { port: 8081, address: 10.0.0.2 }
  db: { port: 5432, mode: l4 }
pools: { app: { endpoints: [{ address: "10.0.0.9:80" }] }, db: { endpoints: [{ address: "10.0.0.9:5432" }] } }
routes:
  - { name: up, listeners: [plain], redirect: { scheme: https } }
  - { name: app, listeners: [secure, one, two], forward: app }
  - { name: db, listeners: [db], forward: db }
"""


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("https://app.example/foo",), "no listener on port 443; listeners: plain (http, port 8080); secure (https"),
        (("http://app.example/foo",), "no listener on port 80"),
        (("https://app.example:8080/",), "listener plain on port 8080 speaks plain HTTP: write http://"),
        (("http://app.example:8443/",), "listener secure on port 8443 speaks TLS: write https://"),
        (("ftp://app.example/",), "the scheme ftp is not served; write http:// or https://"),
        (("http://app.example:8081/",), "several listeners on port 8081: one, two; add --listener NAME"),
        (("http://app.example:8080/", "--client", "abc"), "'abc' is not an IP address"),
        (("/", "--listener", "nope"), "no listener 'nope' serves requests; listeners: plain"),
        (("/", "--listener", "db"), "no listener 'db' serves requests"),
    ],
)
def test_route_refuses_a_url_that_no_listener_serves(args, says, tmp_path):
    (tmp_path / "t.yaml").write_text(PORTS, encoding="utf-8")
    done = lbgen("route", "t.yaml", "GET", *args, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "listener"),
    [
        (("http://app.example:8080/",), "plain"),
        (("https://app.example:8443/",), "secure"),
        (("HTTPS://app.example:8443/",), "secure"),
        (("http://10.0.0.2:8081/",), "two"),
        (("https://app.example/", "--listener", "secure"), "secure"),
        (("/x",), "plain"),
    ],
)
def test_route_says_which_listener_it_asked(args, listener, tmp_path):
    (tmp_path / "t.yaml").write_text(PORTS, encoding="utf-8")
    done = lbgen("route", "t.yaml", "GET", *args, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["listener"] == listener


def test_route_prints_a_location():
    record = json.loads(lbgen("route", SHOP, "GET", "http://shop.example:8080/catalogue/a?b=1", "--json").stdout)
    assert (record["status"], record["location"]) == (301, "http://shop.example:8080/products/a?b=1")


def test_explain_shows_verdicts_and_follows_lines_both_ways():
    done = lbgen("explain", SHOP)
    assert done.returncode == 0, done.stderr
    assert "match.path.regex" in done.stdout
    lines = json.loads(lbgen("explain", SHOP, "--field", "routes[2]", "-e", "nginx", "--json").stdout)
    number = lines[0]["line"]
    back = json.loads(lbgen("explain", SHOP, "--line", f"nginx.conf:{number}", "--json").stdout)
    assert back["field"].startswith("routes[2]")
    assert back["place"]["line"] > 0
    for name, number in (
        ("routes[api].rewrite", "routes[1].rewrite"),
        ("routes[api].forward[api-v2]", "routes[1].forward[1]"),
    ):
        by_name, by_number = (lbgen("explain", SHOP, "--field", each, "-e", "nginx").stdout for each in (name, number))
        assert by_name == by_number


def test_schema_is_json_schema():
    schema = json.loads(lbgen("schema").stdout)
    assert "listeners" in schema["properties"]


def test_schema_is_written_into_a_file(tmp_path):
    assert lbgen("schema", "-o", "s.json", cwd=tmp_path).returncode == 0
    assert json.loads((tmp_path / "s.json").read_text(encoding="utf-8")) == json.loads(lbgen("schema").stdout)


def test_diff_shows_requests_and_says_by_its_exit_code_whether_anything_changes(tmp_path):
    new = tmp_path / "new.yaml"
    old = (ROOT / SHOP).read_text(encoding="utf-8")
    new.write_text(old.replace('x-canary: "true"', 'x-canary: "yes"'), encoding="utf-8")
    same = lbgen("diff", SHOP, SHOP)
    assert (same.returncode, same.stderr) == (0, "")
    assert "nothing changes" in same.stdout
    found = lbgen("diff", SHOP, str(new))
    assert found.returncode == 4
    assert "curl -isS --path-as-is -H 'Host: shop.example' -H 'x-canary: yes'" in found.stdout
    record = json.loads(lbgen("diff", SHOP, str(new), "--json").stdout)
    assert record["same"] is False
    assert [change["routes"] for change in record["requests"]] == [["api", "canary"], ["canary", "api"]]


def test_check_leaves_out_what_is_ignored():
    every = json.loads(lbgen("check", SHOP, "--no-engines", "--json").stdout)
    assert {"LB266", "LB267"} == {finding["code"] for finding in every}
    some = json.loads(lbgen("check", SHOP, "--no-engines", "--json", "--ignore", "LB266").stdout)
    assert {"LB267"} == {finding["code"] for finding in some}


@pytest.mark.parametrize(("flag", "word"), [("--accept", "nope"), ("--ignore", "foo")])
def test_check_refuses_a_feature_or_code_that_there_is_not(flag, word):
    done = lbgen("check", SHOP, "--no-engines", flag, word)
    assert done.returncode == 2
    assert f"'{word}'" in done.stderr


def test_a_mistyped_feature_gets_a_hint():
    done = lbgen("render", SHOP, "--accept", "timeouts.idel")
    assert done.returncode == 2
    assert "did you mean 'timeouts.idle'?" in done.stderr


def test_check_ends_with_the_number_of_findings(tmp_path):
    (tmp_path / "t.yaml").write_text(
        "version: 1\nname: x\nlisteners: { web: { prot: 80 } }\nroutes: [{ name: a }]\n", encoding="utf-8"
    )
    done = lbgen("check", "t.yaml", cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == f"t.yaml: {len(re.findall('^t.yaml:[0-9]', done.stderr, re.M))} errors"
    assert lbgen("check", SHOP, "--no-engines").stdout == f"{SHOP}: no errors, 2 advice\n"


def test_render_to_standard_output_writes_no_folder(tmp_path):
    done = lbgen("render", POSTGRES, "-e", "nftables", "-o", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == lbgen("render", POSTGRES, "-e", "nftables").stdout
    assert not list(tmp_path.iterdir())


def test_diff_shows_a_weight_of_zero_and_counts_one_change(tmp_path):
    old = (ROOT / POSTGRES).read_text(encoding="utf-8")
    (tmp_path / "new.yaml").write_text(old.replace("weight: 2", "weight: 0"), encoding="utf-8")
    done = lbgen("diff", POSTGRES, str(tmp_path / "new.yaml"))
    assert done.returncode == 4
    assert "{ host: 10.4.0.10, port: 5432, weight: 0 }" in done.stdout
    assert "1 change that no request shows" in done.stdout


def test_render_says_who_needs_the_agent_and_where_private_keys_went(tmp_path):
    assert lbgen("init", "--template", "tls", cwd=tmp_path).returncode == 0
    done = lbgen("render", "topology.yaml", "-e", "nginx", "-e", "haproxy", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    agent = [line for line in done.stderr.splitlines() if "lbgen agent" in line]
    assert len(agent) == 1
    assert agent[0].startswith("nginx needs `lbgen agent out/nginx` beside it")
    keys = [line for line in done.stderr.splitlines() if line.startswith("copied for")]
    assert len(keys) == 2
    for line in keys:
        path = tmp_path / line.rpartition(": ")[2]
        assert path.stat().st_mode & 0o777 == 0o600


def test_the_old_name_of_real_endpoints_is_taken_and_not_shown(tmp_path):
    shown = lbgen("up", "--help").stdout
    assert "--real-endpoints" in shown
    assert "--no-backends" not in shown
    for flag in ("--real-endpoints", "--no-backends"):
        done = lbgen("up", "nothing.yaml", flag, cwd=tmp_path)
        assert done.returncode == 1
        assert "LB110" in done.stderr


def test_verify_without_rendered_files_is_a_usage_error(tmp_path):
    done = lbgen("verify", SHOP, "--rendered", str(tmp_path))
    assert done.returncode in (2, 3), "3: not root"
    assert "LB411" in done.stderr or "LB407" in done.stderr
