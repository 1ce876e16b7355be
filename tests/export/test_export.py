"""Exported folders: golden files of the shop and hybrid-edge, and what the tools of each target say of all examples.

`--update-golden` rewrites tests/export/golden. The engines' own files are left out there: tests/golden has them.
"""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml

import lbgen
from lbgen.diagnostics import LbgenError, UsageError
from lbgen.exporters import kubernetes, swarm
from lbgen.exporters.run import TARGETS
from lbgen.runtime.common.tokens import public_keys
from lbgen.runtime.orchestrators.names import label
from lbgen.severity import Severity
from lbgen.spec.load import load_bytes
from tests.support.growth import rich_topology
from tests.support.growth import topology as growth_topology

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = sorted(ROOT.glob("examples/*/topology.yaml"))
CASES = {"shop": "haproxy", "hybrid-edge": None}
KEYS = ROOT / "tests/errors"
CONTAINERS = [name for name in TARGETS if name in ("compose", "swarm", "kubernetes")]
CHECKED = """\
version: 1
name: checked
listeners:
  web: { port: 80 }
  tls: { port: 8443, tls: { certificates: [{ cert: pair.crt, key: pair.key }] } }
metrics: { port: 9100 }
pools:
  app:
    endpoints: [{ address: "10.0.0.1:8080" }, { address: "10.0.0.2:8080" }]
    health: { active: { path: /up } }
routes:
  - name: limited
    match: [{ path: { prefix: /api } }]
    forward: app
    rate_limit: { rate: 10/s, key: client_ip }
  - { name: app, forward: app }
"""
GUARDED = """\
version: 1
name: guarded
listeners: { web: { port: 8080, error_pages: { 404: { file: 404.html } } } }
pools:
  app: { endpoints: [{ address: "10.0.0.1:8080" }] }
  sso: { endpoints: [{ address: "10.0.0.2:8080" }] }
routes:
  - { name: staff, match: [{ path: { prefix: /staff } }], forward: app, auth: { basic: { users: users.htpasswd } } }
  - { name: asked, match: [{ path: { prefix: /asked } }], forward: app, auth: { forward: { pool: sso } } }
  - name: kept
    match: [{ path: { prefix: /kept } }]
    respond: { status: 200 }
    auth: { basic: { users: users.htpasswd } }
  - { name: open, match: [{ path: { prefix: /open } }], forward: app }
"""
TOKENS = """\
  - name: token
    match: [{ path: { prefix: /token } }]
    forward: app
    auth: { jwt: { issuer: "https://login.example", audience: [shop], jwks: keys.json } }
"""
INSIDE = """\
version: 1
name: inside
listeners: { web: { port: 8080, auth: { basic: { users: users.htpasswd } } } }
pools: { app: { endpoints: [{ address: "10.0.0.1:8080" }] } }
routes: [{ name: app, forward: app }]
"""
HASH = "{SHA}" + "a" * 27 + "="  # which every engine checks
needs = {
    name: pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name}")
    for name in ("systemd-analyze", "kubectl", "docker")
}


@cache
def exported(example: str, target: str, engine: str | None = None) -> lbgen.Exported:
    topology = lbgen.load(str(ROOT / "examples" / example / "topology.yaml"))
    return lbgen.export(topology, target, engine=engine, accept=("all",))


@pytest.fixture
def checked(tmp_path: Path) -> lbgen.Topology:
    """A topology with active checks, metrics, a key, a low port and a rate limit."""
    for name in ("pair.crt", "pair.key"):
        shutil.copy(KEYS / name, tmp_path)
    (tmp_path / "checked.yaml").write_text(CHECKED, encoding="utf-8")
    return lbgen.load(str(tmp_path / "checked.yaml"))


def own_files(found: lbgen.Exported) -> dict[str, str]:
    """The files that are not the engines'."""
    engines = ("nginx.conf", "haproxy.cfg", "routes/", "maps/", "lua", "proxy_headers.conf")
    files = {name: text for name, text in found.files.items() if not any(word in name for word in engines)}
    return files | {"files.txt": "".join(f"{name}\n" for name in found.files)}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_files_are_the_same(target: str, case: str, update_golden: bool) -> None:
    folder = GOLDEN / target / case
    try:
        files = own_files(exported(case, target, CASES[case]))
    except LbgenError as refused:
        files = {"refused.txt": f"{refused}\n".replace(str(ROOT), "")}
    if update_golden:
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    kept = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()
    }
    assert kept == files, "run with --update-golden and read the diff"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("engine", ["nginx", "haproxy"])
def test_every_example_is_exported_or_refused_with_a_finding(engine: str, target: str, path: Path) -> None:
    try:
        found = exported(path.parent.name, target, engine)
    except LbgenError as stop:
        refused = stop.diagnostics
    else:
        refused = ()
        assert "README.md" in found.files
        for name, text in found.files.items():
            if name.endswith((".yaml", ".yml")):
                assert list(yaml.safe_load_all(text)), name
    assert all(each.code.startswith("LB3") for each in refused), refused


@pytest.mark.parametrize("target", TARGETS)
def test_private_keys_are_files_of_their_owner_and_in_no_text(
    target: str, checked: lbgen.Topology, tmp_path: Path
) -> None:
    secret = (KEYS / "pair.key").read_text(encoding="utf-8").splitlines()[1]
    found = lbgen.export(without_metrics(checked), target, engine="haproxy", accept=("all",))
    assert not any(secret in text for text in found.files.values())
    found.write(tmp_path / target)
    keys = list((tmp_path / target).rglob("*.key"))
    assert keys
    assert all(stat.S_IMODE(key.stat().st_mode) == 0o600 for key in keys)


def without_metrics(topology: lbgen.Topology) -> lbgen.Topology:
    folder = topology.base
    (folder / "plain.yaml").write_text(CHECKED.replace("metrics: { port: 9100 }\n", ""), encoding="utf-8")
    return lbgen.load(str(folder / "plain.yaml"))


def guarded(folder: Path, more: str = "") -> lbgen.Topology:
    """A topology with each kind of authentication, and a page."""
    (folder / "users.htpasswd").write_text(f"anna:{HASH}\n", encoding="utf-8")
    (folder / "keys.json").write_text(public_keys(), encoding="utf-8")
    (folder / "404.html").write_text("nothing is here\n", encoding="utf-8")
    (folder / "guarded.yaml").write_text(GUARDED + more, encoding="utf-8")
    return lbgen.load(str(folder / "guarded.yaml"))


@pytest.mark.parametrize("engine", ["nginx", "haproxy", "envoy", "traefik"])
@pytest.mark.parametrize("target", [*CONTAINERS, "systemd"])
def test_hashes_of_passwords_are_secrets_and_pages_come_along(target: str, engine: str, tmp_path: Path) -> None:
    topology = guarded(tmp_path, TOKENS if engine in ("haproxy", "envoy") else "")
    found = lbgen.export(topology, target, engine=engine, accept=("all",))
    assert not any(HASH.removeprefix("{SHA}") in text for text in found.files.values())
    assert any("nothing is here" in text for text in found.files.values())
    found.write(tmp_path / "out")
    every = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    secret = [path for path in every if HASH.removeprefix("{SHA}") in path.read_text(encoding="utf-8")]
    assert secret
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secret)
    names = {path.relative_to(tmp_path / "out").as_posix() for path in secret}
    if target == "swarm":
        stack = yaml.safe_load(found.files["stack.yaml"])
        assert {each["file"].removeprefix("./") for each in stack["secrets"].values()} >= names
        [service] = stack["services"].values()
        assert {(each["mode"], each["uid"]) for each in service["secrets"]} == {(0o400, "65534")}
    elif target == "kubernetes":
        [generator] = yaml.safe_load(found.files["kustomization.yaml"])["secretGenerator"]
        assert {each.partition("=")[2] for each in generator["files"]} >= names
    elif target == "compose":
        assert all(name in found.files["README.md"].partition("sudo chown")[2].partition("```")[0] for name in names)


def test_the_gateway_api_closes_guarded_routes(tmp_path: Path) -> None:
    topology = guarded(tmp_path, TOKENS)
    kinds = {f"route.auth.{kind}" for kind in ("basic", "forward", "jwt")}
    with pytest.raises(LbgenError) as refused:
        lbgen.export(topology, "gateway-api")
    assert kinds <= {each.accept for each in refused.value.diagnostics}
    found = lbgen.export(topology, "gateway-api", accept=("all",))
    every = yaml.safe_load_all(found.files["routes.yaml"])
    routes = {each["metadata"]["name"]: each["spec"]["rules"] for each in every}
    closed = {name for name, [rule] in routes.items() if rule.keys() == {"matches"}}
    assert closed == {"guarded-staff", "guarded-asked", "guarded-kept", "guarded-token"}
    assert "backendRefs" in routes["guarded-open"][0]
    assert not any(HASH in text for text in found.files.values())


def test_the_auth_of_a_listener_closes_its_routes_too(tmp_path: Path) -> None:
    (tmp_path / "users.htpasswd").write_text(f"anna:{HASH}\n", encoding="utf-8")
    (tmp_path / "inside.yaml").write_text(INSIDE, encoding="utf-8")
    topology = lbgen.load(str(tmp_path / "inside.yaml"))
    with pytest.raises(LbgenError) as refused:
        lbgen.export(topology, "gateway-api")
    assert [each.field for each in refused.value.diagnostics] == ["listeners.web.auth.basic"]
    found = lbgen.export(topology, "gateway-api", accept=("all",))
    assert "backendRefs" not in found.files["routes.yaml"]


@pytest.mark.parametrize("target", TARGETS)
def test_certificates_by_acme_are_refused_with_who_keeps_them_there(target: str) -> None:
    others = {"kubernetes": "cert-manager", "gateway-api": "cert-manager", "systemd": "certbot.timer"}
    with pytest.raises(LbgenError, match=f"(?s)LB311.*{others.get(target, 'certbot or lego')}") as refused:
        exported("acme", target, "nginx")
    assert all(each.span.line for each in refused.value.diagnostics)


@pytest.mark.parametrize("target", TARGETS)
def test_challenges_go_to_a_pool_or_on_machines_to_a_folder(target: str, tmp_path: Path) -> None:
    def challenges(where: dict[str, str]) -> dict[str, str]:
        topology = guarded(tmp_path).replace({"acme_challenge": where})
        return lbgen.export(topology, target, engine="nginx", accept=("all",)).files

    assert any("/.well-known/acme-challenge" in text for text in challenges({"forward": "sso"}).values())
    if target == "systemd":
        files = challenges({"directory": "/var/www/acme"})
        assert "units/lbgen-guarded-agent.service" in files
        assert '"webroot": "/var/www/acme"' in files["files/guarded/acme.json"]
    for folder in ("challenges", *(() if target == "systemd" else ("/var/www/acme",))):
        with pytest.raises(LbgenError, match=r"LB311 acme_challenge\.directory"):
            challenges({"directory": folder})


def test_an_absolute_path_is_refused_for_containers(checked: lbgen.Topology, tmp_path: Path) -> None:
    absolute = CHECKED.replace("pair.crt", str(tmp_path / "pair.crt"))
    (tmp_path / "absolute.yaml").write_text(absolute, encoding="utf-8")
    topology = lbgen.load(str(tmp_path / "absolute.yaml"))
    for target in CONTAINERS:
        with pytest.raises(LbgenError, match="LB311"):
            lbgen.export(topology, target, engine="nginx", accept=("all",))
    assert lbgen.export(topology, "systemd", engine="nginx", accept=("all",)).files


def test_the_gateway_api_is_not_silent_about_text_for_one_engine(checked: lbgen.Topology) -> None:
    text = {"engines.nginx.server": "auth_basic staff;", "accept.nginx": ["engines.verbatim.auth"]}
    with pytest.raises(LbgenError) as refused:
        lbgen.export(without_metrics(checked).replace(text), "gateway-api")
    assert {"engines.verbatim", "engines.verbatim.auth"} <= {each.accept for each in refused.value.diagnostics}


@pytest.mark.parametrize(("target", "most"), [(x, 0 if x == "compose" else 3) for x in CONTAINERS])
def test_a_limit_of_each_replica_is_a_finding(checked: lbgen.Topology, target: str, most: int) -> None:
    topology, replicas = without_metrics(checked), {"": 3} if most else None
    found = lbgen.export(topology, target, engine="haproxy", accept=("all",), replicas=replicas)
    told = [each for each in found.findings if "3 times the rate" in each.message]
    assert len(told) == (1 if most else 0)
    assert all(each.code == "LB310" and each.severity is Severity.WARNING and each.span.line for each in told)


@pytest.mark.parametrize("names", [("web" * 20 + "1", "web" * 20 + "2"), ("a.b", "a-b"), ("Web", "web")])
def test_names_that_differ_stay_two(names: tuple[str, str]) -> None:
    assert len({label(name) for name in names}) == 2
    assert all(re.fullmatch("[a-z0-9](?:[a-z0-9-]{0,48}[a-z0-9])?", label(name)) for name in names)
    assert label("a-b") == "a-b"


def test_two_tiers_cannot_have_one_file(tmp_path: Path) -> None:
    text = (ROOT / "examples/hybrid-edge/topology.yaml").read_text(encoding="utf-8")
    renamed = text.replace("tier: web", "tier: edge-agent").replace("  web: {", "  edge-agent: {")
    (tmp_path / "named.yaml").write_text(f"{renamed}metrics: {{ port: 9100 }}\n", encoding="utf-8")
    with pytest.raises(LbgenError, match=r"LB311.*two tiers would have the file units/lbgen-hybrid-edge-agent.service"):
        lbgen.export(lbgen.load(str(tmp_path / "named.yaml")), "systemd", accept=("all",))


def test_unknown_names_are_usage_errors(checked: lbgen.Topology) -> None:
    for words in ({"to": "nomad"}, {"to": "compose"}, {"to": "compose", "engine": "nginx", "replicas": {"web": 2}}):
        with pytest.raises(UsageError):
            lbgen.export(checked, **words)


def test_rules_of_the_kernel_run_on_machines_alone() -> None:
    topology = lbgen.load(str(ROOT / "examples/hybrid-edge/direct.yaml"))
    assert "units/lbgen-hybrid-edge.service" in lbgen.export(topology, "systemd").files
    for target in CONTAINERS:
        with pytest.raises(LbgenError, match="LB311"):
            lbgen.export(topology, target)


@pytest.mark.parametrize("engine", ["nginx", "haproxy", "envoy", "traefik"])
def test_agents_run_where_a_field_needs_them(checked: lbgen.Topology, engine: str) -> None:
    found = lbgen.export(checked, "compose", engine=engine, accept=("all",))
    services = yaml.safe_load(found.files["compose.yaml"])["services"]
    assert set(services) == {"checked", "checked-agent"}
    assert services["checked-agent"]["pid"] == "service:checked"
    assert "0" in services["checked"]["sysctls"].values()
    units = lbgen.export(checked, "systemd", engine=engine, accept=("all",)).files
    assert "lbgen agent /run/lbgen/checked" in units["units/lbgen-checked-agent.service"]
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE" in units["units/lbgen-checked.service"]
    # The engine has a capability, or user namespace, that the agent has not, so that its process would be hidden.
    assert "ProtectProc=" not in units["units/lbgen-checked-agent.service"]


def floating(folder: Path, address: str) -> lbgen.Topology:
    """A topology whose machines share an address."""
    text = (
        CHECKED.replace("port: 80 ", f"port: 80, {address} ") + 'engines: { keepalived: { vrrp: "interface eth0" } }\n'
    )
    for name in ("pair.crt", "pair.key"):
        shutil.copy(KEYS / name, folder)
    (folder / "floating.yaml").write_text(text, encoding="utf-8")
    return lbgen.load(str(folder / "floating.yaml"))


def test_keepalived_announces_the_addresses_of_machines_in_front(tmp_path: Path) -> None:
    found = lbgen.export(floating(tmp_path, "address: 192.0.2.1"), "systemd", engine="haproxy", accept=("all",)).files
    assert "\t\t192.0.2.1\n" in found["files/checked/keepalived.conf"]
    assert "virtual_server" not in found["files/checked/keepalived.conf"]
    assert "BindsTo=lbgen-checked.service" in found["units/lbgen-checked-floating.service"]
    with pytest.raises(LbgenError, match=r"LB311 engines.keepalived.vrrp: no listener has an address that could float"):
        lbgen.export(floating(tmp_path, "address: 0.0.0.0"), "systemd", engine="haproxy", accept=("all",))


def test_what_the_agent_wrote_outlives_a_reload(checked: lbgen.Topology, tmp_path: Path) -> None:
    """load.sh with folders of the test, and a checker that refuses what says so."""
    source, work = tmp_path / "etc", tmp_path / "run"
    work.mkdir()

    def load(topology: lbgen.Topology) -> int:
        lbgen.export(topology, "systemd", engine="nginx", accept=("all",)).write(tmp_path / "out")
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(tmp_path / "out/files/checked", source)
        check = "if grep -q xwrongx nginx.conf; then exit 1; fi"
        script = re.sub("^nginx .* -t$", check, (source / "load.sh").read_text(encoding="utf-8"), flags=re.MULTILINE)
        script = script.replace("/etc/lbgen/checked", str(source)).replace("/var/log/lbgen", str(tmp_path))
        return subprocess.run(["sh", "-c", script], cwd=work, check=False).returncode

    def changed(old: str, new: str) -> lbgen.Topology:
        (tmp_path / "changed.yaml").write_text(CHECKED.replace(old, new), encoding="utf-8")
        return lbgen.load(str(tmp_path / "changed.yaml"))

    upstream, config = work / "upstreams/http/app.conf", work / "nginx.conf"
    assert load(checked) == 0
    first = upstream.read_text(encoding="utf-8")
    upstream.write_text("by the agent\n", encoding="utf-8")
    assert load(changed("name: app", "name: renamed")) == 0
    assert "renamed" in config.read_text(encoding="utf-8")
    assert upstream.read_text(encoding="utf-8") == "by the agent\n"
    assert load(changed("name: app", "name: xwrongx")) != 0
    assert "renamed" in config.read_text(encoding="utf-8")
    assert load(changed("10.0.0.2:8080", "10.0.0.3:8080")) == 0
    assert upstream.read_text(encoding="utf-8") == first.replace("10.0.0.2", "10.0.0.3")
    assert load(changed("app", "web")) == 0
    assert not upstream.exists(), "a file that is no longer exported"


@needs["systemd-analyze"]
@pytest.mark.parametrize("engine", ["nginx", "haproxy", "envoy", "traefik", "direct", "keepalived", "floating"])
def test_units_are_valid_and_hardened(checked: lbgen.Topology, engine: str, tmp_path: Path) -> None:
    if engine == "direct":
        found = lbgen.export(lbgen.load(str(ROOT / "examples/hybrid-edge/direct.yaml")), "systemd")
    elif engine == "floating":
        found = lbgen.export(floating(tmp_path, "address: 192.0.2.1"), "systemd", engine="nginx", accept=("all",))
    elif engine == "keepalived":
        found = exported("postgres", "systemd", engine)
    else:
        found = lbgen.export(checked, "systemd", engine=engine, accept=("all",))
    found.write(tmp_path / "out")
    units = sorted((tmp_path / "out/units").iterdir())
    for unit in units:
        said = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False).stderr
        wrong = [line for line in said.splitlines() if unit.name in line and "is not executable" not in line]
        assert wrong == []
        scored = ["systemd-analyze", "security", "--offline=true", "--threshold=25", unit]
        subprocess.run(scored, capture_output=True, check=True)


def objects(found: lbgen.Exported, part: str) -> dict[str, list[dict]]:
    """The manifests of a part of an export for Kubernetes, by kind."""
    by_kind: dict[str, list[dict]] = {}
    for name in (f"{part}-files.yaml", f"{part}.yaml"):
        for each in yaml.safe_load_all(found.files[name]):
            by_kind.setdefault(each["kind"], []).append(each)
    return by_kind


@needs["kubectl"]
def test_kustomize_makes_the_secret_that_pods_mount(checked: lbgen.Topology, tmp_path: Path) -> None:
    found = lbgen.export(checked, "kubernetes", engine="nginx", accept=("all",), namespace="prod", autoscale=True)
    found.write(tmp_path / "out")
    made = subprocess.run(["kubectl", "kustomize", tmp_path / "out"], capture_output=True, check=True).stdout
    every = {each["kind"]: each for each in yaml.safe_load_all(made)}
    kinds = "ConfigMap Deployment HorizontalPodAutoscaler NetworkPolicy PodDisruptionBudget Secret Service"
    assert set(every) == set(kinds.split())
    assert {each["metadata"]["namespace"] for each in every.values()} == {"prod"}
    pod = every["Deployment"]["spec"]["template"]["spec"]
    mounted = [each["secret"]["name"] for each in pod["volumes"][0]["projected"]["sources"] if "secret" in each]
    assert mounted == [every["Secret"]["metadata"]["name"]]
    assert every["Secret"]["immutable"]
    assert every["ConfigMap"]["immutable"]
    assert [each["name"] for each in pod["containers"]] == ["engine", "agent"]
    assert pod["shareProcessNamespace"]
    for each in (pod, *pod["containers"]):
        assert each["securityContext"]


def test_other_files_have_another_name(tmp_path: Path) -> None:
    """And the Deployment names them, so that a change starts new pods and the files of before stay."""
    before = objects(exported("shop", "kubernetes", "haproxy"), "shop")
    topology = lbgen.load(str(ROOT / "examples/shop/topology.yaml"))
    text = (ROOT / "examples/shop/topology.yaml").read_text(encoding="utf-8").replace("/healthz", "/livez")
    (tmp_path / "shop.yaml").write_text(text, encoding="utf-8")
    after = objects(lbgen.export(lbgen.load(str(tmp_path / "shop.yaml")), "kubernetes", engine="haproxy"), "shop")
    names = [each["ConfigMap"][0]["metadata"]["name"] for each in (before, after)]
    assert len(set(names)) == 2
    assert all(name in str(each["Deployment"]) for name, each in zip(names, (before, after), strict=True))
    other = objects(lbgen.export(topology, "kubernetes", engine="envoy", accept=("all",)), "shop")
    assert other["Deployment"][0]["spec"]["selector"] == before["Deployment"][0]["spec"]["selector"]


def test_tiers_reach_each_other_by_headless_names() -> None:
    found = exported("hybrid-edge", "kubernetes")
    config = objects(found, "hybrid-edge")["ConfigMap"][0]["data"]["haproxy.cfg"]
    assert (
        "server-template s1- 10 hybrid-web-headless.default.svc.cluster.local:8081 resolvers dns init-addr none"
        in config
    )
    config = exported("hybrid-edge", "compose").files["hybrid-edge/haproxy.cfg"]
    assert "server s1 hybrid-web-1:8081 resolvers dns init-addr libc,none" in config, "no address after a reload"
    behind = objects(found, "hybrid-web")
    assert [each["metadata"]["name"] for each in behind["Service"]] == ["hybrid-web", "hybrid-web-headless"]
    assert behind["Service"][1]["spec"]["clusterIP"] == "None"
    allowed = behind["NetworkPolicy"][0]["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    assert allowed["app.kubernetes.io/instance"] == "hybrid-edge"


def in_cluster(**more: object) -> lbgen.Topology:
    return lbgen.load(
        {
            "version": 1,
            "name": "inside",
            "listeners": {"web": {"port": 8080}},
            "pools": {"api": {"endpoints": [{"service": "api.shop:9000"}], **more}},
            "routes": [{"name": "all", "forward": "api"}],
        }
    )


def test_an_endpoint_is_a_service_of_the_cluster() -> None:
    found = lbgen.export(in_cluster(), "kubernetes", engine="haproxy")
    config = objects(found, "inside")["ConfigMap"][0]["data"]["haproxy.cfg"]
    assert "server-template s1- 10 api.shop.svc.cluster.local:9000 resolvers dns" in config
    [route] = yaml.safe_load_all(lbgen.export(in_cluster(), "gateway-api").files["routes.yaml"])
    [backend] = route["spec"]["rules"][0]["backendRefs"]
    assert (backend["name"], backend["namespace"], backend["port"]) == ("api", "shop", 9000)


@pytest.mark.parametrize("target", ["compose", "swarm", "systemd"])
def test_outside_of_a_cluster_a_service_is_refused(target: str) -> None:
    with pytest.raises(LbgenError, match=r"endpoints\[0\]\.service: .* elsewhere write address: host:port"):
        lbgen.export(in_cluster(), target, engine="haproxy")


def test_many_files_are_spread_over_config_maps_and_a_large_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = load_bytes(rich_topology(200).encode(), "growth.yaml", Path.cwd())
    rendered = lbgen.render(topology, engine="nginx", accept=("all",))
    sizes = [len(text.encode()) for text in rendered.values()]
    monkeypatch.setattr(kubernetes, "MOST_BYTES", max(sizes) + 1_000)
    maps = objects(lbgen.export(topology, "kubernetes", engine="nginx", accept=("all",)), "growth")["ConfigMap"]
    assert len(maps) > 1
    assert sum(len(each["data"]) for each in maps) == len(rendered) + 1  # start.sh
    monkeypatch.setattr(kubernetes, "MOST_BYTES", max(sizes) - 1_000)
    with pytest.raises(LbgenError, match=r"LB311.*nginx.conf of nginx has .* bytes, and a ConfigMap holds"):
        lbgen.export(topology, "kubernetes", engine="nginx", accept=("all",))


def test_a_thousand_routes_fit(tmp_path: Path) -> None:
    topology = load_bytes(growth_topology(1000, hosts=10, pools=5).encode(), "growth.yaml", Path.cwd())
    found = lbgen.export(topology, "kubernetes", engine="haproxy", accept=("all",))
    assert len(objects(found, "growth")["ConfigMap"]) == 1


@needs["docker"]
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_docker_reads_every_stack(path: Path, tmp_path: Path) -> None:
    try:
        exported(path.parent.name, "swarm", "haproxy").write(tmp_path)
    except LbgenError as refused:
        pytest.skip(str(refused))
    read = ["docker", "stack", "config", "--compose-file", tmp_path / "stack.yaml"]
    assert subprocess.run(read, capture_output=True, text=True, check=True).stderr == ""


def test_tasks_of_a_tier_behind_begin_before_others_end() -> None:
    services = yaml.safe_load(exported("hybrid-edge", "swarm").files["stack.yaml"])["services"]
    edge, web = services["hybrid-edge"]["deploy"], services["hybrid-web"]["deploy"]
    assert (edge["mode"], edge["update_config"]["order"]) == ("global", "stop-first")
    assert (web["replicas"], web["update_config"]["order"]) == (3, "start-first")
    assert {each["endpoint_mode"] for each in (edge, web)} == {"dnsrr"}
    assert {each["update_config"]["failure_action"] for each in (edge, web)} == {"rollback"}
    config = exported("hybrid-edge", "swarm").files["hybrid-edge/haproxy.cfg"]
    assert "server-template s1- 10 hybrid-web:8081 resolvers dns" in config


def test_a_swarm_refuses_what_needs_the_agent_and_large_files(
    checked: lbgen.Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    for engine, field in (("nginx", "pools.app.health.active"), ("haproxy", "metrics")):
        with pytest.raises(LbgenError, match=f"LB311 {field}: .* needs `lbgen agent`"):
            lbgen.export(checked, "swarm", engine=engine, accept=("all",))
    monkeypatch.setattr(swarm, "MOST_BYTES", 500)
    with pytest.raises(LbgenError, match=r"LB311.*haproxy.cfg has .* bytes, and a config of a swarm holds 500"):
        lbgen.export(without_metrics(checked), "swarm", engine="haproxy", accept=("all",))


def gateway(tmp_path: Path, **words: str) -> lbgen.Exported:
    for name in ("pair.crt", "pair.key"):
        shutil.copy(KEYS / name, tmp_path)
    shutil.copy(Path(__file__).parent / "gateway.yaml", tmp_path)
    return lbgen.export(lbgen.load(str(tmp_path / "gateway.yaml")), "gateway-api", **words)


def test_the_gateway_api_says_all_that_it_has_a_word_for(tmp_path: Path) -> None:
    found = gateway(tmp_path, gateway_class="istio")
    assert found.findings == ()
    assert yaml.safe_load(found.files["gateway.yaml"])["spec"]["gatewayClassName"] == "istio"
    routes = list(yaml.safe_load_all(found.files["routes.yaml"]))
    kinds = [each["kind"] for each in routes]
    assert kinds == ["HTTPRoute", "HTTPRoute", "GRPCRoute", "HTTPRoute", "HTTPRoute", "TLSRoute", "UDPRoute"]
    canary, moved, calls, _, inside, mail, _ = (each["spec"] for each in routes)
    assert [rule["matches"][0]["method"] for rule in canary["rules"]] == ["GET", "POST"]
    filters = [each["type"] for each in canary["rules"][0]["filters"]]
    modifiers = ["RequestHeaderModifier", "ResponseHeaderModifier"]
    assert filters == [*modifiers, "CORS", "URLRewrite", "RequestMirror"]
    assert [each["weight"] for each in canary["rules"][0]["backendRefs"]] == [5, 95]
    assert moved["rules"][0]["filters"][0]["requestRedirect"]["statusCode"] == 308
    methods = [each["method"] for each in calls["rules"][0]["matches"]]
    assert methods[0] == {"type": "Exact", "service": "shop.Cart", "method": "Add"}
    assert inside["rules"][0]["backendRefs"] == [{"name": "api", "namespace": "prod", "port": 80, "weight": 1}]
    assert mail["hostnames"] == ["mail.example", "*.mail.example"]
    backends = list(yaml.safe_load_all(found.files["backends.yaml"]))
    slices = {each["metadata"]["name"]: each for each in backends if each["kind"] == "EndpointSlice"}
    assert slices["gateway-app-ipv4-8080"]["endpoints"] == [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}]
    policy = next(each["spec"] for each in backends if each["kind"] == "BackendTLSPolicy")
    assert policy["validation"]["hostname"] == "api.partner.example"


def test_the_gateway_api_refuses_what_it_has_no_word_for_unless_accepted(checked: lbgen.Topology) -> None:
    fields = {"metrics", "pools.app.health.active", "routes[0].rate_limit"}
    with pytest.raises(LbgenError) as refused:
        lbgen.export(checked, "gateway-api")
    assert {each.field for each in refused.value.diagnostics} == fields
    words = {each.accept for each in refused.value.diagnostics}
    found = lbgen.export(checked, "gateway-api", accept=tuple(words))
    assert {each.field for each in found.findings} == fields
    assert {each.code for each in found.findings} == {"LB310"}
    assert "| `route.rate_limit` | routes[0].rate_limit |" in found.files["README.md"]
