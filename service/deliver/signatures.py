"""Signatures of deliveries, as Standard Webhooks describes them (https://www.standardwebhooks.com).

A secret begins with `whsec_` for HMAC-SHA256, whose signature is `v1`, or with `whsk_` for a key of Ed25519, `v1a`; the
rest is base64. What is signed is the id, the time and the body, joined by full stops.
"""

import base64
import hashlib
import hmac
import secrets

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

HMAC_PREFIX, ED25519_PREFIX, ED25519_PUBLIC_PREFIX = "whsec_", "whsk_", "whpk_"
_SECRET_BYTES = 32


def new_secret(*, is_asymmetric: bool = False) -> str:
    """Return a random secret."""
    prefix = ED25519_PREFIX if is_asymmetric else HMAC_PREFIX
    return prefix + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def public_key(secret: str) -> str:
    """Return the key that verifies what a secret of Ed25519 signs, to be shown to the receiver."""
    return ED25519_PUBLIC_PREFIX + base64.b64encode(_private_key(secret).public_key().public_bytes_raw()).decode()


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`; `timestamp` is in seconds since 1970."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    if secret.startswith(ED25519_PREFIX):
        return "v1a," + base64.b64encode(_private_key(secret).sign(signed)).decode()
    key = base64.b64decode(secret.removeprefix(HMAC_PREFIX))
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def _private_key(secret: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(secret.removeprefix(ED25519_PREFIX))[:32])
