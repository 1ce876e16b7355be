"""The steps that a runtime reports while it brings a stack up or changes it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Step(StrEnum):
    """A step of `up` for an engine (or, with an empty engine name, for the stack)."""

    PULLING = "pulling its image"
    BUILDING = "building an image"
    POOLS = "endpoints"
    BACKENDS = "stand-ins answer"
    STARTED = "started"
    LISTENING = "listening"
    ANSWERED = "route answered"
    READY = "ready"
    REPLACING = "replacing"
    CHECKING = "checks the change"
    CHECKED = "the change is sound"
    LOADING = "loads the change"
    REVERTING = "goes back to what it served"
    RELOADED = "loaded the change"
    VERIFYING = "compared"
    VERIFIED = "behaves the same"
    DRAINING = "serves in place of the one before"
    DRAINED = "drained"
    STOPPED = "stopped"
    TAKEN_OVER = "taken over"


REPORTED_AT_START = frozenset({Step.PULLING, Step.CHECKING, Step.LOADING, Step.REVERTING})  # the others when done


class Progress(Struct, frozen=True, tag=True):
    """A step that is done, or one of `REPORTED_AT_START` that begins. `done` of `total` counts the routes that answer;
    both are 0 in other steps."""

    step: Step
    engine: str = ""
    detail: str = ""
    done: int = 0
    total: int = 0


def no_progress(progress: object) -> None:
    """Ignore a step: the default of functions that report their progress."""
