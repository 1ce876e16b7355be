"""Tiers: the engine, the number and the hosts of the replicas."""

from typing import Annotated

from pydantic import Field, model_validator

from lbgen.spec.base import Strict
from lbgen.spec.value_errors import wrong_type
from lbgen.spec.values import Name, PlainHost

MOST_REPLICAS = 64

Replicas = Annotated[int, Field(strict=True, ge=1, le=MOST_REPLICAS)]


class Tier(Strict):
    """Replicas that serve the same listeners; pools with `tier` lead to them."""

    engine: Name | None = Field(
        default=None, description="engine that serves it; the command line's when left out", examples=["haproxy"]
    )
    replicas: Replicas | None = Field(
        default=None, description="how many; 1, or as many as hosts, when left out", examples=[3]
    )
    hosts: list[PlainHost] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_REPLICAS,
        description="where they are when lbgen does not start them; <topology>-<tier>-1 and so on when left out",
        examples=[["edge-1.internal"]],
    )

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, data: object) -> object:
        if isinstance(data, str):
            raise wrong_type("a mapping", data, f"write {{ engine: {data} }}")
        return data

    @property
    def count(self) -> int:
        """The number of replicas."""
        return self.replicas or len(self.hosts or ()) or 1
