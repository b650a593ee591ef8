"""The generated companies: a parent with children, a large one and independents."""

from collections.abc import Iterator

import msgspec
import orjson

from sample.data_files import blank_record, load_table
from sample.sample_clock import SampleClock, format_timestamp
from sample.seeded_random import seeded_random


class SampleCompany(msgspec.Struct, frozen=True):
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

    def share_of(self, total: int, least: int) -> int:
        """Return the company's part of `total`, but no less than `least`."""
        return max(least, round(total * self.share))


def load_companies() -> tuple[SampleCompany, ...]:
    """Return all companies, the largest first."""
    return load_table("companies", tuple[SampleCompany, ...])


def company_lines(seed: int, clock: SampleClock) -> Iterator[bytes]:
    """Yield the lines of companies.ndjson; a company is its own scope, so the envelope names none."""
    chance = seeded_random(seed, "companies")
    for company in load_companies():
        parent = {"parent_company_id": company.parent} if company.parent else {}
        envelope = {"updated_at": format_timestamp(clock.earlier(chance)), **parent, "record": _record(company)}
        yield orjson.dumps(envelope, option=orjson.OPT_APPEND_NEWLINE)


def _record(company: SampleCompany) -> dict[str, object]:
    return blank_record("Company") | {
        "platform_company_id": company.key,
        "name": company.name,
        "numeric_id": company.numeric_id,
        "client_company_id": company.client_company_id,
        "public_partner_attrs": {"is_nrt": company.is_nrt},
    }
