"""The features of Traefik, in the order in which their middlewares see a request: one row, and one file, for each."""

from __future__ import annotations

from lbgen.engines.traefik.access import ACCESS
from lbgen.engines.traefik.balancing import BALANCING, STICKY
from lbgen.engines.traefik.basic_auth import BASIC_AUTH
from lbgen.engines.traefik.compression import COMPRESSION
from lbgen.engines.traefik.cors import CORS
from lbgen.engines.traefik.forward_auth import FORWARD_AUTH
from lbgen.engines.traefik.forwarded_headers import FORWARDED_HEADERS
from lbgen.engines.traefik.headers import EARLY_HEADERS, HEADERS
from lbgen.engines.traefik.health_checks import HEALTH_CHECKS
from lbgen.engines.traefik.l4 import L4
from lbgen.engines.traefik.limits import LIMITS
from lbgen.engines.traefik.paths import PATHS
from lbgen.engines.traefik.rate_limits import RATE_LIMITS
from lbgen.engines.traefik.retries import RETRIES
from lbgen.engines.traefik.rewrites import ANSWERS, REWRITES
from lbgen.engines.traefik.timeouts import CLIENT_TIMEOUTS, TIMEOUTS
from lbgen.engines.traefik.tls import TLS
from lbgen.engines.traefik.values import VALUES_OF_REQUESTS, VALUES_OF_RESPONSES

FEATURES = (
    TLS,
    L4,
    FORWARDED_HEADERS,
    PATHS,
    CLIENT_TIMEOUTS,
    EARLY_HEADERS,
    VALUES_OF_RESPONSES,
    ACCESS,
    RATE_LIMITS,
    CORS,
    BASIC_AUTH,
    FORWARD_AUTH,
    COMPRESSION,
    VALUES_OF_REQUESTS,
    REWRITES,
    HEADERS,
    LIMITS,
    TIMEOUTS,
    RETRIES,
    ANSWERS,
    BALANCING,
    STICKY,
    HEALTH_CHECKS,
)
