"""What each request must be answered, computed from the source records and the rules alone."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from mappings import RESOURCES
from service.keys.store import KeyGrant
from tests.contract.world import Envelope

IDENTIFIERS = {resource.alias: resource.identifier for resource in RESOURCES}
# Parameters that find people and offices by a member of the same name.
FOUND_BY = frozenset({"name", "first_name", "last_name", "email", "license", "mls_agent_id"})


def compared_member(resource: str, parameter: str) -> str:
    """Return the member that such a parameter compares."""
    return "primary_email_address" if (resource, parameter) == ("agents", "email") else parameter


_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
COMPANY, PARENT_COMPANY = "platform_company_id", "parent_company_id"
WALKED = ("listings", "sold_listings")

# What the filters of a feed are compared with, on the seller's side; the buyer's comes with a flag.
_AGENTS = ("ListAgentUUID", "SecondaryListAgentUUID")
_OFFICE = ("ListAgentPlatformOfficeID",)
_BUYER_AGENT, _BUYER_OFFICE = "BuyerAgentUUID", "BuyerAgentPlatformOfficeID"


@dataclass(frozen=True)
class MatrixRequest:
    """A request: the key's name, the operation's path, the value of its placeholder, and the query."""

    key: str
    path: str
    named: str | None
    query: dict[str, str] = field(default_factory=dict)

    @property
    def resource(self) -> str:
        return self.path.split("/")[1]


@dataclass(frozen=True)
class ExpectedResponse:
    """The status, and behind 200 the identifiers of all records that are to be found, in order."""

    status: int
    identifiers: tuple[str, ...] = ()


class _ExpectedRefusal(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class AccessModel:
    """Who owns what, and who may read whom."""

    def __init__(self, source: dict[str, list[Envelope]], grants: dict[str, KeyGrant]) -> None:
        self.source, self.grants = source, grants
        self.numbers = {e["record"][COMPANY]: str(e["record"]["numeric_id"]) for e in source["companies"]}
        self._parents = {e["record"][COMPANY]: e.get(PARENT_COMPANY) for e in source["companies"]}
        self.readable = {name: self._readable(grant) for name, grant in grants.items()}

    def owner(self, envelope: Envelope) -> str:
        """Return the key of the company that a record belongs to."""
        return str(envelope.get(COMPANY) or envelope["record"][COMPANY])

    def of(self, resource: str, companies: Iterable[str]) -> list[Envelope]:
        """Return the records of some companies."""
        wanted = {*companies}
        return [envelope for envelope in self.source[resource] if self.owner(envelope) in wanted]

    def withholds(self, key: str, envelope: Envelope) -> bool:
        """Return whether the licence of a key withholds a record."""
        is_refused = envelope["record"].get("InternetEntireListingDisplayYN") is False
        return self.grants[key].display is not None and is_refused

    def company(self, text: str) -> str | None:
        """Return the key of a company given by key or number."""
        return next((key for key, number in self.numbers.items() if text in {key, number}), None)

    def children(self, parent: str) -> frozenset[str]:
        """Return the companies under a parent."""
        return frozenset(key for key, above in self._parents.items() if above == parent)

    def verdict(self, asked: MatrixRequest) -> ExpectedResponse:
        """Return what a request must be answered."""
        try:
            found = self._found(asked, self._scope(asked))
        except _ExpectedRefusal as refused:
            return ExpectedResponse(refused.status)
        return ExpectedResponse(200, tuple(sorted(str(e["record"][IDENTIFIERS[asked.resource]]) for e in found)))

    def _readable(self, grant: KeyGrant) -> frozenset[str]:
        if grant.all_companies:
            return frozenset(self.numbers)
        parents = self._known(grant.parent_companies)
        return self._known(grant.companies) | parents | {child for parent in parents for child in self.children(parent)}

    def _known(self, texts: Iterable[str]) -> frozenset[str]:
        return frozenset(key for text in texts if (key := self.company(text)) is not None)

    def _scope(self, asked: MatrixRequest) -> frozenset[str]:
        company, parent = asked.query.get(COMPANY), asked.query.get(PARENT_COMPANY)
        if asked.path == "/listings" and company is None:
            raise _ExpectedRefusal(400)
        children = None if parent is None else self._under(asked.key, parent)
        if company is None:
            return self.readable[asked.key] if children is None else children
        key = self.company(company)
        if key is None or key not in self.readable[asked.key]:
            raise _ExpectedRefusal(400 if self.grants[asked.key].all_companies else 403)
        if children is not None and (not company.isdigit() or key not in children):
            raise _ExpectedRefusal(400)
        return frozenset({key})

    def _under(self, name: str, parent: str) -> frozenset[str]:
        key, grant = self.company(parent), self.grants[name]
        if grant.all_companies:
            if key is None or not self.children(key):
                raise _ExpectedRefusal(400)
        elif key is None or key not in self._known(grant.parent_companies):
            raise _ExpectedRefusal(403)
        return self.children(key)

    def _found(self, asked: MatrixRequest, scope: frozenset[str]) -> list[Envelope]:
        records = [e for e in self.of(asked.resource, scope) if not self.withholds(asked.key, e)]
        if asked.named is not None:
            return self._shown(asked, scope, records)
        if asked.resource in {"agents", "offices"}:
            is_wanted = asked.query.get("deactivated") == "true"
            records = [e for e in records if (e.get("deactivated_at") is not None) == is_wanted]
        for condition in self._conditions(asked, scope):
            records = [e for e in records if condition(e)]
        return records

    def _shown(self, asked: MatrixRequest, scope: frozenset[str], records: list[Envelope]) -> list[Envelope]:
        assert asked.named is not None
        identifier = IDENTIFIERS[asked.resource]
        placeholder = asked.path.partition("{")[2].rstrip("}")
        if not _is_same(asked.named, asked.query.get(placeholder, asked.named)):
            raise _ExpectedRefusal(400)
        if asked.resource == "agents":
            return self._agents(asked.named, scope, is_named=self._is_named(asked), missing=404)
        spelt = self.company(asked.named) if asked.resource == "companies" else asked.named
        return _some([e for e in records if spelt is not None and _is_same(e["record"][identifier], spelt)], 404)

    def _agents(self, guid: str, scope: frozenset[str], *, is_named: bool, missing: int) -> list[Envelope]:
        ways: list[Callable[[Envelope], bool]] = [
            lambda e: _is_same(e["record"]["agent_uuid"], guid),
            *self._platform_ways(guid),
            lambda e: is_named and e.get("source_agent_id") == guid,
        ]
        found = ([e for e in self.of("agents", scope) if way(e)] for way in ways)
        return _single(next((some for some in found if some), []), missing)

    def _is_named(self, asked: MatrixRequest) -> bool:
        return bool({COMPANY, PARENT_COMPANY} & asked.query.keys())

    def _conditions(self, asked: MatrixRequest, scope: frozenset[str]) -> list[Callable[[Envelope], bool]]:
        query = asked.query
        conditions: list[Callable[[Envelope], bool]] = []
        uuids = [query["agent_uuid"].lower()] if "agent_uuid" in query else []
        if "platform_agent_id" in query:
            uuids.append(self._platform(query["platform_agent_id"], scope))
        if "source_agent_id" in query:
            uuids.append(self._internal(query["source_agent_id"], scope, is_named=self._is_named(asked)))
        is_bought = query.get("include_buyer_listings") == "true"
        agents = (*_AGENTS, _BUYER_AGENT) if is_bought else _AGENTS
        conditions += [partial(_holds, agents, uuid) for uuid in uuids]
        if (office := query.get("platform_office_id")) is not None:
            _some([e for e in self.of("offices", scope) if e["record"]["platform_office_id"] == office], 400)
            offices = (*_OFFICE, _BUYER_OFFICE) if is_bought else _OFFICE
            conditions.append(partial(_holds, offices if asked.resource in WALKED else ("platform_office_id",), office))
        for parameter in FOUND_BY & query.keys():
            conditions.append(partial(_is_called, compared_member(asked.resource, parameter), query[parameter]))
        after = query.get("last_platform_listing_id", "")
        if asked.resource in WALKED:
            conditions.append(lambda e: bool(e["record"]["PlatformListingId"] > after))
        return conditions

    def _platform(self, text: str, scope: frozenset[str]) -> str:
        agents = self.of("agents", scope)
        found = ([e for e in agents if way(e)] for way in self._platform_ways(text))
        return str(_single(next((some for some in found if some), []), 400)[0]["record"]["agent_uuid"])

    def _platform_ways(self, text: str) -> list[Callable[[Envelope], bool]]:
        company, colon, internal = text.partition(":")
        key = self.company(company) if colon else None
        return [
            lambda e: bool(e["record"]["platform_agent_id"] == text),
            lambda e: "@" in text and e["record"]["platform_agent_id"].lower() == text.lower(),
            lambda e: key is not None and self.owner(e) == key and e.get("source_agent_id") == internal,
        ]

    def _internal(self, text: str, scope: frozenset[str], *, is_named: bool) -> str:
        found = [e for e in self.of("agents", scope) if is_named and e.get("source_agent_id") == text]
        return str(_single(found, 400)[0]["record"]["agent_uuid"])


def _is_same(stored: str, sent: str) -> bool:
    """Whether identifiers are equal: UUIDs without regard to case, all others exactly."""
    return stored == sent or (_UUID.fullmatch(sent) is not None and stored.lower() == sent.lower())


def _is_called(member: str, text: str, envelope: Envelope) -> bool:
    return str(envelope["record"].get(member)).lower() == text.lower() != "none"


def _holds(names: tuple[str, ...], value: str, envelope: Envelope) -> bool:
    return any(envelope["record"].get(name) == value for name in names)


def _some(found: list[Envelope], missing: int) -> list[Envelope]:
    if not found:
        raise _ExpectedRefusal(missing)
    return found


def _single(found: list[Envelope], missing: int) -> list[Envelope]:
    if len(_some(found, missing)) > 1:
        raise _ExpectedRefusal(400)
    return found
