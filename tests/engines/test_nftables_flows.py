"""Datagrams of a client leave an endpoint once its flows are ended: the kernel keeps them there otherwise."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.engines.test_nftables import needs_kernel

pytestmark = [needs_kernel, pytest.mark.engines, pytest.mark.root]

SCRIPT = """
import socket, subprocess
from lbgen.agent import conntrack

RULES = '''
add table ip t
delete table ip t
table ip t {
  chain out { type nat hook output priority -100; policy accept
    ip daddr 127.0.0.2 udp dport 53 dnat ip to 127.0.0.1:%d
  }
}
'''

def steer(port):
    subprocess.run(["nft", "-f", "-"], input=(RULES % port).encode(), check=True)

def server(port):
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.bind(("127.0.0.1", port))
    found.settimeout(2)
    return found

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
first, second = server(5301), server(5302)
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
steer(5301)
client.sendto(b"one", ("127.0.0.2", 53))
assert first.recv(9) == b"one"
steer(5302)
client.sendto(b"two", ("127.0.0.2", 53))
assert first.recv(9) == b"two", "the kernel keeps the flow where it was"
assert conntrack.end_flows([("127.0.0.1", 5309)]) == 0
assert conntrack.end_flows([("127.0.0.1", 5301)]) == 1
client.sendto(b"three", ("127.0.0.2", 53))
assert second.recv(9) == b"three"
"""


def test_datagrams_leave_an_endpoint_whose_flows_are_ended() -> None:
    unshare = shutil.which("unshare")
    assert unshare is not None
    done = subprocess.run(
        [unshare, "-n", sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr
