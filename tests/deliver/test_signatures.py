"""Signatures, compared with the example that Standard Webhooks publishes."""

import base64

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from brokerage_feed import DeliveryRejected, verify_delivery
from service.deliver.courier import signed_headers
from service.deliver.signatures import ED25519_PUBLIC_PREFIX, new_secret, public_key, signature
from service.deliver.subscriptions import Subscription, now_milliseconds

_SECRET = "whsec_plJ3nmyCDGBKInavdOK15jsl"
_BODY = b'{"event_type":"ping","data":{"success":true}}'
_MESSAGE, _TIMESTAMP = "msg_loFOjxBNrRLzqYUf", 1731705121


def test_the_example_of_the_standard() -> None:
    expected = "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="
    assert signature(_SECRET, _MESSAGE, _TIMESTAMP, _BODY) == expected


@pytest.mark.parametrize(
    ("message", "timestamp", "body"),
    [("msg_other", _TIMESTAMP, _BODY), (_MESSAGE, _TIMESTAMP + 1, _BODY), (_MESSAGE, _TIMESTAMP, _BODY + b" ")],
)
def test_all_that_is_signed_is_covered(message: str, timestamp: int, body: bytes) -> None:
    assert signature(_SECRET, message, timestamp, body) != signature(_SECRET, _MESSAGE, _TIMESTAMP, _BODY)


def test_the_public_key_verifies_what_its_secret_signs() -> None:
    secret = new_secret(is_asymmetric=True)
    known = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key(secret).removeprefix(ED25519_PUBLIC_PREFIX)))
    version, _, text = signature(secret, _MESSAGE, _TIMESTAMP, _BODY).partition(",")
    assert version == "v1a"
    signed = b"%s.%d.%s" % (_MESSAGE.encode(), _TIMESTAMP, _BODY)
    known.verify(base64.b64decode(text), signed)
    with pytest.raises(InvalidSignature):
        known.verify(base64.b64decode(text), signed + b" ")


def test_secrets_differ() -> None:
    assert new_secret() != new_secret()
    assert len(base64.b64decode(new_secret().removeprefix("whsec_"))) == 32


@pytest.mark.parametrize("is_asymmetric", [False, True])
def test_a_secret_that_was_replaced_signs_until_its_time_is_over(is_asymmetric: bool) -> None:
    old, new = (new_secret(is_asymmetric=is_asymmetric) for _ in range(2))
    for replaced_until, is_accepted in ((now_milliseconds() + 60_000, True), (now_milliseconds(), False)):
        subscription = Subscription(
            id="s",
            name="crm",
            key_id="k",
            url="https://crm.example/",
            created=0,
            secret=new,
            replaced_secret=old,
            replaced_until=replaced_until,
        )
        body = b'{"type":"test"}'
        headers = signed_headers(subscription, "m", body)
        known_old, known_new = map(public_key, (old, new)) if is_asymmetric else (old, new)
        assert verify_delivery(known_new, headers, body).type == "test"
        if is_accepted:
            assert verify_delivery(known_old, headers, body).type == "test"
        else:
            with pytest.raises(DeliveryRejected):
                verify_delivery(known_old, headers, body)
