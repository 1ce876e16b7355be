"""Orders from an ACME authority by HTTP-01, with the library `acme`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import cast

from acme import challenges, errors, messages
from acme.client import ClientNetwork, ClientV2
from acme.crypto_util import make_csr
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from josepy.errors import Error as JoseError
from josepy.jwa import ES256
from josepy.jwk import JWK, JWKEC
from requests import RequestException, Response

from lbgen.agent.certificate_store import CertificateStore, put
from lbgen.engines.acme_spec import OrderedCertificate
from lbgen.version import VERSION

_SYSTEM = Path("/etc/ssl/certs/ca-certificates.crt")  # else the library's own list
_LIMITED = (429, 503)  # statuses with a Retry-After
_DIGITS = 16


class OrderError(Exception):
    """An order failed, for the reason it says. `retry`: the authority wants no other one before (seconds of the epoch),
    None = it did not say."""

    def __init__(self, reason: str, retry: float | None = None) -> None:
        super().__init__(reason)
        self.retry = retry


class AcmeClient:
    """The account at the authority that `order` names; it is made with the first order, and kept in `store`."""

    def __init__(self, order: OrderedCertificate, store: CertificateStore, folder: Path) -> None:
        self._order = order
        self._store = store
        self._verify: bool | str = str(folder / order.ca) if order.ca is not None else True
        if order.ca is None and _SYSTEM.is_file():
            self._verify = str(_SYSTEM)
        self._retry: float | None = None

    def obtain(self) -> tuple[bytes, bytes]:
        """A new chain and its new key (PEM). Raises OrderError."""
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        tokens: list[str] = []
        self._retry = None
        try:
            client, account = self._registered()
            pending = client.new_order(make_csr(pem, list(self._order.domains)))
            for authorization in pending.authorizations:
                if authorization.body.status != messages.STATUS_VALID:
                    challenge = _http01(authorization)
                    response, answer = challenge.response_and_validation(account)
                    tokens.append(challenge.chall.encode("token"))
                    self._store.put_token(tokens[-1], answer)
                    client.answer_challenge(challenge, response)
            return client.poll_and_finalize(pending).fullchain_pem.encode(), pem
        except (errors.Error, JoseError, RequestException, OSError, ValueError, KeyError) as error:
            if isinstance(error, messages.Error) and error.code == "accountDoesNotExist":
                self._account_file.unlink(missing_ok=True)  # the next order makes another one
            raise OrderError(_reason(error), self._retry) from error
        finally:
            for token in tokens:
                self._store.remove_token(token)

    def renewal_time(self, chain: bytes) -> tuple[float | None, float]:
        """When the authority wants `chain` to be renewed (None: it does not say), and when to ask again; seconds of the
        epoch. A revoked certificate is to be renewed at once. Raises OrderError."""
        try:
            when, again = ClientV2(*self._connect(None, None)).renewal_time(chain)
        except (errors.Error, RequestException, OSError, ValueError, KeyError) as error:
            raise OrderError(_reason(error)) from error
        return None if when is None else when.timestamp(), again.timestamp()

    def _registered(self) -> tuple[ClientV2, JWK]:
        key: JWK
        if self._account_file.is_file():
            saved = json.loads(self._account_file.read_bytes())
            key = cast("JWK", JWK.from_json(saved["key"]))
            account = messages.RegistrationResource(uri=saved["uri"], body=messages.Registration())
            return ClientV2(*self._connect(key, account)), key
        key = JWKEC(key=ec.generate_private_key(ec.SECP256R1()))
        client = ClientV2(*self._connect(key, None))
        wanted = messages.NewRegistration.from_data(email=self._order.email, terms_of_service_agreed=True)
        uri = client.new_account(wanted).uri
        saved = {"directory": self._order.directory, "uri": uri, "key": key.to_json()}
        put(self._account_file, json.dumps(saved).encode(), secret=True)
        return client, key

    def _connect(
        self, key: JWK | None, account: messages.RegistrationResource | None
    ) -> tuple[messages.Directory, ClientNetwork]:
        network = ClientNetwork(
            key,
            account,
            alg=ES256,
            verify_ssl=cast("bool", self._verify),  # requests takes a bundle as well
            user_agent=f"lbgen/{VERSION}",
        )
        network.session.hooks["response"].append(self._note_limit)
        return ClientV2.get_directory(self._order.directory, network), network

    def _note_limit(self, response: Response, *_: object, **__: object) -> None:
        if response.status_code in _LIMITED and "Retry-After" in response.headers:
            self._retry = max(time.time(), ClientV2.retry_after(response, 0).timestamp())

    @property
    def _account_file(self) -> Path:
        import hashlib

        digest = hashlib.sha256(self._order.directory.encode()).hexdigest()[:_DIGITS]
        return self._store.folder / f"account-{digest}.json"


def _http01(authorization: messages.AuthorizationResource) -> messages.ChallengeBody:
    for each in authorization.body.challenges:
        if isinstance(each.chall, challenges.HTTP01):
            return each
    raise ValueError(f"the authority offers no HTTP-01 for {authorization.body.identifier.value}")


def _reason(error: Exception) -> str:
    """One line that says why, with what the authority said of each name."""
    if isinstance(error, errors.ValidationError):
        said = [
            f"{authorization.body.identifier.value}: {challenge.error.detail}"
            for authorization in error.failed_authzrs
            for challenge in authorization.body.challenges
            if challenge.error is not None
        ]
        return " ".join("; ".join(said).split())
    if isinstance(error, messages.Error):
        return " ".join(f"{error.detail or error.description or error.typ} ({error.code})".split())
    if isinstance(error, errors.TimeoutError):
        return "the authority did not finish in 90 s"
    return " ".join(str(error).split()) or type(error).__name__
