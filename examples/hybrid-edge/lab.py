"""An edge in the kernel before three nginx nodes before a service, in network namespaces; needs root, ip and nft.

python examples/hybrid-edge/lab.py

The network is that of examples/direct-routing. It prints what happened as one JSON object; the exit status is 1 when
something is wrong.
"""

from __future__ import annotations

import ctypes
import http.client
import http.server
import json
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from lbgen.engines.api import engine
from lbgen.runtime.common.executables import find

HERE = Path(__file__)
sys.path.insert(0, str(HERE.parents[1] / "direct-routing"))
import lab  # noqa: E402

NODES, SERVICE_HOST = lab.ENDS, "10.77.2.20"
lab.SEGMENT["service"] = SERVICE_HOST
REQUESTS = 60


class Answer(http.server.BaseHTTPRequestHandler):
    """The service: which node asks, and for which client."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps([self.client_address[0], self.headers["X-Forwarded-For"]]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def ask(connection: http.client.HTTPConnection, path: str = "/") -> str:
    """The node that serves a request, a status other than 200 with its Location, or "" for nobody."""
    try:
        connection.request("GET", path, headers={"Host": "shop.example:8080"})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException):
        return ""
    if answer.status != 200:
        return f"{answer.status} {answer.headers['Location']}"
    node, client = json.loads(body)
    names = {address: name for name, address in NODES.items()}
    return names[node] if client == lab.CLIENT else f"{names[node]} for {client}"


def ask_anew(count: int) -> Counter[str]:
    """Who serves `count` requests, each on a connection of its own."""
    found: Counter[str] = Counter()
    for _ in range(count):
        connection = http.client.HTTPConnection(lab.SERVICE, 8080, timeout=2)
        found[ask(connection)] += 1
        connection.close()
    return found


def drill(stack: ExitStack, folder: Path) -> dict[str, object]:
    """Everything that is tried, and what came of it."""
    topology = HERE.parent / "direct.yaml"
    lab.run(sys.executable, "-m", "lbgen", "render", str(topology), "-o", str(folder), "--accept", "all")
    lab.build(stack, "L2")
    lab.inside("balancer", "nft", "-f", "-", text=lab.COUNTERS)
    lab.start(stack, "service", sys.executable, str(HERE), "serve")
    edge, nginx = folder / "edge/nftables", find(engine("nginx"))[0]
    nodes = {}
    for name, address in NODES.items():
        own = shutil.copytree(folder / "web/nginx", folder / name)
        argv = (str(nginx.path), "-p", f"{own}/", "-e", "stderr", "-c", "nginx.conf", "-g", "daemon off;")
        nodes[name] = lab.start(stack, name, *argv)
        stack.callback(nodes[name].wait, 10)
        stack.callback(nodes[name].terminate)  # killed, it would leave its workers
        lab.inside(name, "nft", "-f", str(edge / f"direct/{address}.nft"))
    lab.inside("balancer", "nft", "-f", "lbgen.nft", folder=edge)
    lab.start(stack, "balancer", sys.executable, "-m", "lbgen", "agent", str(edge))
    with Path(f"/run/netns/{lab.PREFIX}-client").open("rb") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), lab.NEWNET):
            raise OSError(ctypes.get_errno(), "the client's namespace cannot be entered")
    lab.until(lambda: ask_anew(6).keys() == NODES.keys(), 20)
    found: dict[str, object] = {"served": ask_anew(REQUESTS)}
    kept = [http.client.HTTPConnection(lab.SERVICE, 8080, timeout=2) for _ in range(9)]
    for each in kept:
        each.connect()
        each.auto_open = 0
    before = [ask(each) for each in kept]
    found["redirect"] = ask(kept[0], "/old")
    lab.until((edge / "agent.state.json").is_file, 20)
    nodes["end1"].terminate()
    found["out after"] = lab.until(lambda: ask_anew(6).keys() == {"end2", "end3"}, 10)
    found["kept of others"] = sum(ask(x) == name for x, name in zip(kept, before, strict=True) if name != "end1")
    found["served then"] = ask_anew(REQUESTS)
    found["packets"] = {"requests": lab.packets("requests"), "replies": lab.packets("replies")}
    return found


def judge(found: dict[str, object]) -> list[str]:
    """What is wrong."""
    expected = {
        "served": dict.fromkeys(NODES, REQUESTS // 3),
        "redirect": "302 http://shop.example:8080/new",
        "kept of others": 6,
        "served then": {"end2": REQUESTS // 2, "end3": REQUESTS // 2},
    }
    wrong = [f"{key}: {found[key]}, expected {value}" for key, value in expected.items() if found[key] != value]
    if not 0 <= float(str(found["out after"])) < 2:
        wrong.append(f"the dead node is out after {found['out after']} s")
    seen = found["packets"]
    assert isinstance(seen, dict)  # noqa: S101 - made above
    if seen["replies"] or not seen["requests"]:
        wrong.append(f"the edge saw {seen}, expected requests and no replies")
    return wrong


def main() -> int:
    if sys.argv[1:2] == ["serve"]:
        http.server.ThreadingHTTPServer((SERVICE_HOST, 9000), Answer).serve_forever()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        Path(folder).chmod(0o755)  # for nginx's workers
        found = drill(stack, Path(folder))
    wrong = judge(found)
    print(json.dumps(found, indent=1))
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
