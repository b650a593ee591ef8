"""Generated installations that differ in nothing but their number of companies, parents and keys."""

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import orjson
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from cluster.control_index import ensure_index
from sample import write_source
from service.keys.api_key import KEYS_INDEX_BODY, ApiKey, generate_key
from service.keys.store import KeyGrant, KeyStore

_UPDATED_AT = "2026-01-01T00:00:00Z"
_KEYS_PER_WRITE = 5_000
_LEFT_OUT = {
    "sold_listings": (
        *("ListingImages", "PropertyFeatures", "PublicRemarks", "OpenHouse"),
        *("ListAgentUUID", "ListAgentOfficeID", "ListAgentPlatformOfficeID"),
    ),
    "agents": ("bio", "email_addresses", "available_mls", "source_metadata", "teams"),
    "offices": (),
}

Envelope = dict[str, Any]


@dataclass(frozen=True)
class Amount:
    """How much an installation holds.

    The first companies are parents, and 30 % of all companies are below the first one.
    """

    companies: int
    parents: int
    keys: int
    offices: int
    agents: int
    sold: int

    @property
    def large_parent(self) -> int:
        """The number of companies below the first parent."""
        return self.companies * 3 // 10

    def company(self, record: int) -> str:
        """Return the company of the record with this number: all companies have as many."""
        return f"c{record % self.companies:06}"

    def parent(self, company: int) -> str | None:
        """Return the parent of a company, None for a parent."""
        if company < self.parents:
            return None
        others = company - self.parents - self.large_parent
        return self.company(0 if others < 0 else 1 + others % (self.parents - 1))


PARENT = "c000000"


def write_data(folder: Path, amount: Amount) -> None:
    """Write the source of an installation."""
    write_source(folder / "sample", listings=10)
    source = folder / "source"
    source.mkdir()
    _write(source / "companies.ndjson", _companies(amount))
    for alias, count, change in (
        ("offices", amount.offices, _office),
        ("agents", amount.agents, _agent),
        ("sold_listings", amount.sold, _sold_listing),
    ):
        template = _template(folder / "sample" / f"{alias}.ndjson", _LEFT_OUT[alias])
        _write(source / f"{alias}.ndjson", _records(template, amount, count, change))


def _write(path: Path, envelopes: Iterator[Envelope]) -> None:
    with path.open("wb") as file:
        file.writelines(orjson.dumps(envelope) + b"\n" for envelope in envelopes)


def _template(path: Path, left_out: tuple[str, ...]) -> Envelope:
    """Return the first envelope of a generated file, without members that are large or empty."""
    with path.open("rb") as file:
        envelope: Envelope = orjson.loads(file.readline())
    record = {name: value for name, value in envelope["record"].items() if value is not None and name not in left_out}
    return envelope | {"record": record, "updated_at": _UPDATED_AT}


def _records(
    template: Envelope, amount: Amount, count: int, change: Callable[[Envelope, Amount, int], None]
) -> Iterator[Envelope]:
    for number in range(count):
        template["platform_company_id"] = amount.company(number)
        change(template, amount, number)
        yield template


def _companies(amount: Amount) -> Iterator[Envelope]:
    for number in range(amount.companies):
        parent = amount.parent(number)
        key, numeric = amount.company(number), str(1_000_000 + number)
        record: dict[str, Any] = {"platform_company_id": key, "name": f"Company {number}", "numeric_id": numeric}
        record |= {"client_company_id": f"GEN-{number}", "public_partner_attrs": {"is_nrt": False}}
        yield {"updated_at": _UPDATED_AT, "record": record, **({"parent_company_id": parent} if parent else {})}


def _office(envelope: Envelope, _: Amount, number: int) -> None:
    envelope["record"] |= {"platform_office_id": f"o{number:07}", "id": str(number), "name": f"Office {number}"}


def _agent(envelope: Envelope, amount: Amount, number: int) -> None:
    identifier = str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))
    envelope["source_agent_id"] = str(number)
    envelope["record"] |= {"agent_uuid": identifier, "uuid": identifier, "platform_agent_id": f"a{number}@example.com"}
    envelope["record"]["platform_office_id"] = f"o{number % amount.offices:07}"


def _sold_listing(envelope: Envelope, _: Amount, number: int) -> None:
    # In the order of the identifiers the companies change with each record.
    envelope["record"] |= {"PlatformListingId": f"L{number:09}", "ListPrice": number}


async def write_keys(client: AsyncElasticsearch, connection: ConnectionSettings, amount: Amount) -> str:
    """Write the keys, each for one company, in bulk; return the text of one more, which may read all of them."""
    text = await KeyStore(client, connection.keys_index, connection.usage_index).create(
        KeyGrant("all", all_companies=True, rate=None)
    )
    await ensure_index(client, connection.keys_index, KEYS_INDEX_BODY)
    for start in range(0, amount.keys, _KEYS_PER_WRITE):
        numbers = range(start, min(start + _KEYS_PER_WRITE, amount.keys))
        operations = [line for number in numbers for line in _key_lines(amount, number)]
        response = await client.bulk(index=connection.keys_index, operations=operations, refresh=True)
        if response["errors"]:
            raise SystemExit(f"Keys could not be written: {response['items'][0]}")
    return text.reveal()


def _key_lines(amount: Amount, number: int) -> Iterator[dict[str, Any]]:
    text = generate_key()
    now, companies = dt.datetime.now(dt.UTC), (amount.company(number),)
    key = ApiKey(key_id=text.key_id, digest=text.digest, created=now, name=f"key {number}", companies=companies)
    yield {"create": {"_id": key.key_id}}
    yield msgspec.to_builtins(key)
