"""The faults of a drill, and when they come."""

from __future__ import annotations

from enum import StrEnum

BEFORE_SECONDS, FAULT_SECONDS, AFTER_SECONDS = 1.0, 3.0, 1.5
SECONDS = BEFORE_SECONDS + FAULT_SECONDS + AFTER_SECONDS
PULSE_SECONDS = 0.5  # of a burst, or of an endpoint that is down, and of the time until the next
SLOW_SECONDS = 0.5  # by which a slow endpoint is late, at most half the response time
RESTART_SECONDS = 1.0  # until a supervisor starts an engine again, as that of `lbgen up` does
SLOW_CLIENTS = 100


class Fault(StrEnum):
    """What happens meanwhile; the first five to one endpoint."""

    SLOW = "slow"
    RESET = "reset"
    FREEZE = "freeze"
    FLAP = "flap"
    UNAVAILABLE = "503"
    SLOW_CLIENTS = "slow-clients"
    RELOAD = "reload"
    KILL = "kill"

    @property
    def sentence(self) -> str:
        """What happens, in a clause."""
        return _SENTENCES[self]


_SENTENCES = {
    Fault.SLOW: "one endpoint answers late",
    Fault.RESET: "one endpoint resets connections after each request",
    Fault.FREEZE: "one endpoint accepts and is silent, then answers all",
    Fault.FLAP: f"one endpoint refuses connections for {PULSE_SECONDS:g} s, again and again",
    Fault.UNAVAILABLE: f"one endpoint answers 503 for {PULSE_SECONDS:g} s, again and again",
    Fault.SLOW_CLIENTS: f"{SLOW_CLIENTS} other clients send their requests byte by byte",
    Fault.RELOAD: "the engine is reloaded with another response time",
    Fault.KILL: f"the engine is killed, and started again after {RESTART_SECONDS:g} s",
}
