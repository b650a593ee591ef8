"""Who lists and sells, and what changes about a listing when it comes into a status."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sample.ingredients import between, pick
from tests.reso.world.vocabulary import LAST_NAMES, OFF_MARKET, UNDER_CONTRACT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tests.reso.server.schema import Record

_NO_BUYER = dict.fromkeys(("BuyerAgentKey", "BuyerAgentFullName", "BuyerOfficeKey", "BuyerOfficeName"))


@dataclass(frozen=True)
class Participants:
    """Who may list and sell. `members` is not empty."""

    members: Sequence[Record]
    teams: Sequence[Record]
    today: dt.date


def status_change(chance: Random, record: Record, status: str, cast: Participants) -> Record:
    """Return the fields of a listing that change when it comes into a status."""
    contract = cast.today - dt.timedelta(days=between(chance, 0, 40))
    day = f"{contract}T{between(chance, 0, 23):02d}:30:00.000Z"
    is_sold, price = status == "Closed", record["ListPrice"]
    return (_bought(chance, cast) if status in UNDER_CONTRACT else _NO_BUYER) | {
        "StandardStatus": status,
        "MlsStatus": status if chance.random() < 0.9 else f"{status} - {pick(chance, LAST_NAMES)}",
        "StatusChangeTimestamp": day,
        "MajorChangeTimestamp": day,
        "MajorChangeType": "Closed" if is_sold else None,
        "PurchaseContractDate": contract.isoformat() if status in UNDER_CONTRACT else None,
        "OffMarketDate": contract.isoformat() if status in OFF_MARKET else None,
        "CloseDate": contract.isoformat() if is_sold else None,
        "ClosePrice": round(price * chance.uniform(0.9, 1.1)) if is_sold and isinstance(price, int) else None,
    }


def _bought(chance: Random, cast: Participants) -> Record:
    agent = pick(chance, cast.members)
    return {
        "BuyerAgentKey": agent["MemberKey"],
        "BuyerAgentFullName": agent["MemberFullName"],
        "BuyerOfficeKey": agent["OfficeKey"],
        "BuyerOfficeName": agent["OfficeName"],
    }
