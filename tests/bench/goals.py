"""What each figure has to reach, by case and engine."""

from __future__ import annotations

from dataclasses import dataclass

# CPU per request against the hand-tuned configuration with the same features.
_CPU = {"nginx": 1.05, "haproxy": 1.05, "envoy": 1.05, "traefik": 1.10}
CPU = {"minimal": _CPU, "browser": _CPU, "production": _CPU, "tls": _CPU}
LINES = {"nginx": 150, "haproxy": 110, "envoy": 300, "traefik": 100}
ROUTES = {"nginx": 1.15, "haproxy": 1.15, "envoy": 1.15, "traefik": 1.60}  # CPU with 1,000 routes over CPU with one
IDLE_MEMORY = 1.10  # MiB under 10,000 idle connections over the hand-tuned one's
SCALE_MIB, SCALE_LINES = 60, 20_000  # of nginx with 2,000 routes: its largest process, its configuration


@dataclass(frozen=True)
class Result:
    """One figure held against its goal; `missing` says why there is none."""

    case: str
    subject: str
    value: float | None
    goal: float
    unit: str = "x"
    spread: tuple[float, float] | None = None
    detail: str = ""
    missing: str = ""

    @property
    def passed(self) -> bool:
        """Whether the figure, or the lower end of its spread, reaches the goal, to the digits that the table shows."""
        if self.value is None:
            return False
        best = self.value if self.spread is None else min(self.value, self.spread[0])
        return round(best, 2) <= self.goal

    def as_dict(self) -> dict[str, object]:
        """The JSON record."""
        return {
            "case": self.case,
            "subject": self.subject,
            "value": None if self.value is None else round(self.value, 3),
            "goal": self.goal,
            "unit": self.unit,
            "spread": None if self.spread is None else [round(x, 3) for x in self.spread],
            "detail": self.detail,
            "missing": self.missing,
            "passed": self.passed,
        }
