"""What a receiver accepts: what the secret signed a moment ago, and nothing else."""

import base64
import time
from typing import Any

import orjson
import pytest

from brokerage_feed import Delivery, DeliveryRejected, FeedError, delivery_app, verify_delivery
from service.deliver.signatures import new_secret, public_key, signature

_SECRET = "whsec_plJ3nmyCDGBKInavdOK15jsl"
_ENTRY = {"resource": "listings", "company": "a", "id": "L1", "sequence": 1, "time": "2026-11-22T05:50:00.123Z"}
_BODY = orjson.dumps(
    {
        "type": "changes",
        "subscription": "crm",
        "number": 7,
        "since": "AtC",
        "data": {"changes": [_ENTRY | {"reason": "deleted"}], "next": "AtD", "at_end": True},
    }
)


def signed(secret: str = _SECRET, body: bytes = _BODY, at: float | None = None, **changed: str) -> dict[str, str]:
    """Return the headers of a delivery."""
    timestamp = int(time.time() if at is None else at)
    made: dict[str, str] = {
        "Webhook-Id": "m1",
        "Webhook-Timestamp": str(timestamp),
        "Webhook-Signature": signature(secret, "m1", timestamp, body),
    }
    return made | {name.replace("_", "-"): value for name, value in changed.items()}


def test_the_example_of_the_standard_is_accepted() -> None:
    headers = {
        "webhook-id": "msg_loFOjxBNrRLzqYUf",
        "webhook-timestamp": "1731705121",
        "webhook-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
    }
    body = b'{"event_type":"ping","data":{"success":true}}'
    with pytest.raises(FeedError, match="not one of changes"):  # it is verified, and no delivery of this service
        verify_delivery(_SECRET, headers, body, now=1731705121)


def test_a_delivery_is_read() -> None:
    delivery = verify_delivery(_SECRET, signed(), _BODY)
    assert (delivery.number, delivery.since, delivery.subscription) == (7, "AtC", "crm")
    assert delivery.data is not None
    assert [(change.id, change.reason) for change in delivery.data.changes] == [("L1", "deleted")]


@pytest.mark.parametrize("secrets", [["whsec_b3RoZXI=", _SECRET], [_SECRET, "whsec_b3RoZXI="]])
def test_any_of_several_secrets_verifies(secrets: list[str]) -> None:
    assert verify_delivery(secrets, signed(), _BODY).number == 7


def test_any_of_several_signatures_is_enough() -> None:
    headers = signed()
    headers["Webhook-Signature"] = f"v1,b3RoZXI= v2,x {headers['Webhook-Signature']}"
    assert verify_delivery(_SECRET, headers, _BODY).number == 7


def test_a_public_key_verifies() -> None:
    secret = new_secret(is_asymmetric=True)
    assert verify_delivery(public_key(secret), signed(secret), _BODY).number == 7
    with pytest.raises(DeliveryRejected):
        verify_delivery(public_key(new_secret(is_asymmetric=True)), signed(secret), _BODY)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        signed("whsec_b3RoZXI="),
        signed(body=_BODY + b" "),
        signed(Webhook_Id="m2"),
        signed(Webhook_Id=""),
        signed(Webhook_Timestamp="soon"),
        signed(Webhook_Timestamp=str(int(time.time()) + 1)),
        signed(at=time.time() - 10_000),
        signed(at=time.time() + 10_000),  # made before the tests run, perhaps long before
        signed(Webhook_Signature=""),
        signed(Webhook_Signature="v1,"),
        signed(Webhook_Signature="v1,é"),
        signed(Webhook_Signature=f"v1a,{base64.b64encode(b'0' * 64).decode()}"),
    ],
)
def test_anything_else_is_rejected(headers: dict[str, str]) -> None:
    with pytest.raises(DeliveryRejected):
        verify_delivery(_SECRET, headers, _BODY)


async def call(app: Any, headers: dict[str, str], body: bytes) -> int:
    """Return the status of an ASGI application for a request in two parts."""
    parts: list[dict[str, Any]] = [
        {"type": "http.request", "body": body[:10], "more_body": True},
        {"type": "http.request", "body": body[10:]},
    ]
    sent = list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return parts.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await app({"type": "http", "headers": raw}, receive, send)
    status: int = sent[0]["status"]
    return status


async def test_the_application_passes_on_what_is_verified() -> None:
    applied = list[Delivery]()

    async def apply(delivery: Delivery) -> None:
        applied.append(delivery)

    app = delivery_app(_SECRET, apply)
    assert await call(app, signed(), _BODY) == 204
    assert await call(app, signed("whsec_b3RoZXI="), _BODY) == 401
    assert [delivery.number for delivery in applied] == [7]


async def test_what_cannot_be_applied_is_not_acknowledged() -> None:
    async def apply(_: Delivery) -> None:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - the server answers 500
        await call(delivery_app(_SECRET, apply), signed(), _BODY)
