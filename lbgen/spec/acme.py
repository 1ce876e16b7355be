"""HTTP-01 challenges of ACME: who answers them."""

from typing import Self

from pydantic import Field, ModelWrapValidatorHandler, model_validator

from lbgen.spec.base import Strict, needs_one_of
from lbgen.spec.values import FolderPath, Name, Port

CHALLENGE_PORT = 8402


class AcmeChallenge(Strict):
    """Who answers `/.well-known/acme-challenge/` on the L7 listeners without TLS, before any other route."""

    forward: Name | None = Field(
        default=None, description="a pool, such as certbot's own server; no default", examples=["certbot"]
    )
    directory: FolderPath | None = Field(
        default=None,
        description="a folder whose files the agent serves, named by their tokens, such as a webroot's "
        "`.well-known/acme-challenge`; no default",
        examples=["/var/www/html/.well-known/acme-challenge"],
    )
    port: Port = Field(default=CHALLENGE_PORT, description="the loopback port of the agent's server", examples=[8402])

    @model_validator(mode="wrap")
    @classmethod
    def _either(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return needs_one_of(data, handler, "forward", "directory", none=True, what="acme_challenge")
