"""The generated companies: a parent with children, a large one and independents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import orjson

from sample.clock import Clock, iso
from sample.dice import dice
from sample.tables import blank, table

if TYPE_CHECKING:
    from collections.abc import Iterator


class Company(msgspec.Struct, frozen=True):
    """A company; `share` is its part of all listings, the shares of all companies sum to 1."""

    key: str
    numeric_id: str
    name: str
    client_company_id: str | None
    parent: str | None
    is_nrt: bool
    share: float

    @property
    def domain(self) -> str:
        """The company's internet domain, within the one reserved for examples."""
        return f"{self.key.replace('_', '-')}.example.com"

    def portion(self, total: int, least: int) -> int:
        """Return the company's part of `total`, but no less than `least`."""
        return max(least, round(total * self.share))


def companies() -> tuple[Company, ...]:
    """Return all companies, the largest first."""
    return table("companies", tuple[Company, ...])


def company_lines(seed: int, clock: Clock) -> Iterator[bytes]:
    """Yield the lines of companies.ndjson; a company is its own scope, so the envelope names none."""
    chance = dice(seed, "companies")
    for company in companies():
        parent = {"parent_company_id": company.parent} if company.parent else {}
        envelope = {"updated_at": iso(clock.earlier(chance)), **parent, "record": _record(company)}
        yield orjson.dumps(envelope, option=orjson.OPT_APPEND_NEWLINE)


def _record(company: Company) -> dict[str, object]:
    return blank("Company") | {
        "platform_company_id": company.key,
        "name": company.name,
        "numeric_id": company.numeric_id,
        "client_company_id": company.client_company_id,
        "public_partner_attrs": {"is_nrt": company.is_nrt},
    }
