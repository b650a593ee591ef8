"""Receive what a service pushes to a subscription: verified, and in order, with any framework.

Deliveries are signed as Standard Webhooks describes them. They come at least once and in order; one that comes again
has the number of the one before, or was overtaken by it.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from brokerage_feed.errors import FeedError
from brokerage_feed.messages import ChangeBatch, Count, Token

_SECRET, _PUBLIC_KEY = "whsec_", "whpk_"
_VERSIONS = {_SECRET: "v1", _PUBLIC_KEY: "v1a"}
# Seconds by which the clocks of both may differ, and for which a delivery may be on its way.
TOLERANCE_SECONDS = 300.0
MAX_BODY_BYTES = 64 * 1024**2


class DeliveryRejected(FeedError):
    """A delivery that the secret did not sign, or that was signed too long ago: answer 401."""


class Delivery(msgspec.Struct):
    """A delivery. Of `type` `changes` it has a page of changes in `data`; of `test` it has none.

    `since` is the token that it continues, None if it begins with all data: then, with the next delivery `at_end`, you
    have everything, and delete what did not come. `number` rises by one with each; ignore one below the last.
    """

    type: Annotated[str, msgspec.Meta(max_length=100)]
    subscription: Annotated[str, msgspec.Meta(max_length=100)] = ""
    number: Count = 0
    since: Token | None = None
    data: ChangeBatch | None = None


_decode = msgspec.json.Decoder(Delivery).decode


def verify_delivery(
    secrets: str | Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> Delivery:
    """Return a delivery that one of the secrets, or public keys (`whpk_…`), has signed; raise DeliveryRejected.

    `headers` are those of the request, however their names are written. A repeated request is refused after `tolerance`
    seconds, so that nobody can send it again later.
    """
    sent = {name.lower(): value for name, value in headers.items()}
    message, timestamp = sent.get("webhook-id", ""), sent.get("webhook-timestamp", "")
    if not (message and timestamp.isascii() and timestamp.isdecimal() and len(timestamp) < 20):
        raise DeliveryRejected("The delivery has no webhook-id or webhook-timestamp.")
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise DeliveryRejected("The delivery was signed too long ago, or the clock of this host is wrong.")
    signed = f"{message}.{timestamp}.".encode() + body
    given = sent.get("webhook-signature", "").split()
    known = [secrets] if isinstance(secrets, str) else secrets
    # All are compared, whatever the result, so that the time says nothing about the secret.
    if not any([_has_signed(secret, signature, signed) for secret in known for signature in given]):  # noqa: C419
        raise DeliveryRejected("No signature of the delivery is that of the secret.")
    try:
        return _decode(body)
    except msgspec.DecodeError as error:
        raise FeedError(f"The delivery is not one of changes: {error}.") from error


def _has_signed(secret: str, signature: str, signed: bytes) -> bool:
    prefix = _PUBLIC_KEY if secret.startswith(_PUBLIC_KEY) else _SECRET
    version, _, text = signature.partition(",")
    try:
        key, value = base64.b64decode(secret.removeprefix(prefix)), base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    if version != _VERSIONS[prefix]:
        return False
    if prefix == _SECRET:
        return hmac.compare_digest(hmac.digest(key, signed, hashlib.sha256), value)
    # An optional dependency: only those need it who verify with a public key.
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(value, signed)
    except InvalidSignature:
        return False
    return True


Apply = Callable[[Delivery], Awaitable[None]]


def delivery_app(secrets: str | Sequence[str], apply: Apply) -> Callable[..., Awaitable[None]]:
    """Return an ASGI application that passes verified deliveries to `apply`, one after the other.

    It answers 204 once `apply` has returned; if that raises, the server answers 500 and the delivery comes again.
    """

    async def app(scope: Mapping[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]) -> None:
        if scope["type"] != "http":
            raise RuntimeError("Only requests of HTTP are received.")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        status, body = 204, bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > MAX_BODY_BYTES or not message.get("more_body"):
                break
        try:
            if len(body) > MAX_BODY_BYTES:
                status = 413
            else:
                await apply(verify_delivery(secrets, headers, bytes(body)))
        except DeliveryRejected:
            status = 401
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return app
