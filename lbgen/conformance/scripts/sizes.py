"""What an endpoint sees of a request that is too large."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lbgen.conformance.probe import ask, filler
from lbgen.plan.simulate import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.scripts.stage import Stage


def over_limit_never_complete(stage: Stage) -> Iterator[str]:
    """No endpoint ever sees the whole of a request over `max_body`; with a length it is not even asked."""
    for path, size in (("/small", 1_500), ("/large", 204_800)):
        for framing in ((), (("Transfer-Encoding", "chunked"),)):
            whole, heads = sum(stage.endpoints.requests.values()), sum(stage.endpoints.heads.values())
            answer = ask(stage.at["web"], Request("POST", path, (("Host", "h"), *framing), body=filler(size)))
            time.sleep(0.1)
            how = "chunked" if framing else "with a length"
            if answer.status != 413:
                yield f"{path}, {size} bytes {how}: {answer.status} {answer.problem}, expected 413"
            if sum(stage.endpoints.requests.values()) != whole:
                yield f"{path}, {size} bytes {how}: the endpoint got the whole request"
            if not framing and sum(stage.endpoints.heads.values()) != heads:
                yield f"{path}, {size} bytes {how}: the endpoint was asked"
