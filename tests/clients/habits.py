"""What shows at clients and endpoints and is no fault of a rendered file: habits that engines declare, and faults of a
client's own. Each is expected where it may show and nowhere else."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_RESET = (  # a matter of time: most often on nginx and Envoy, now and then on Traefik
    "a JDK before 21 waits for its own time-out where a server over HTTP/2 answers early and ends the rest of the "
    "upload with RST_STREAM (NO_ERROR), as RFC 9113, 8.1 has it (JDK-8293786)"
)


@dataclass(frozen=True)
class Habit:
    """`shows`: the whole difference, as a regex; in tests and on engines whose names match."""

    engine: str
    test: str
    shows: str
    says: str


HABITS = (
    Habit(
        "nginx",
        r"java\[.*expect-tls",
        r"error: '.*HttpTimeoutException.*",
        "nginx sends no 100 (Continue) over HTTP/2, and Java waits for it without a limit of its own",
    ),
    Habit("nginx|envoy|traefik", r"java\[.*refused-tls", r"error: '.*HttpTimeoutException.*", _RESET),
    Habit(
        "haproxy",
        "curl_reset_instead_of_answer",
        "status: 0, exit: 92",
        "HAProxy resets a stream of HTTP/2 where the endpoint's connection ends without an answer",
    ),
    Habit(
        "traefik",
        "curl_8_at_once_with_a_closed_endpoint",
        r"\d of 800 fail",
        "a retry of Traefik may meet the endpoint that has just failed",
    ),
    Habit(
        "traefik",
        "",
        r"(body\.fields)?: lacks \[\], has \[.'x-forwarded-server', '[^']*'., .'x-real-ip', '[^']*'.\]",
        "Traefik sends X-Forwarded-Server and X-Real-Ip to endpoints",
    ),
    Habit(
        "traefik",
        "download",
        r"answer: lacks \[\('accept-ranges', 'bytes'\), \('content-length', '\d+'\)\], "
        r"has \[\('vary', 'accept-encoding'\)\]",
        "Traefik asks endpoints for gzip where the client names no Accept-Encoding, and unpacks the answer",
    ),
)


def unexpected(differences: Iterable[str], engine: str) -> list[str]:
    """The differences that are no habit of `engine` in the test that runs."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition("::")[2]
    own = [x.shows for x in HABITS if re.match(x.engine, engine) and re.search(x.test, test)]
    return [each for each in differences if not any(re.fullmatch(shows, each, re.DOTALL) for shows in own)]
