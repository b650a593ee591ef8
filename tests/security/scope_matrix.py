"""The matrix, generated from the operations: every identifier of each, whatever its owner, requested with every key."""

import itertools
import random
import re
import string
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from service.parameters import Text, Uuid
from service.resources import OPERATIONS
from tests.contract.world import PARENT
from tests.security.expected_access import (
    COMPANY,
    FOUND_BY,
    IDENTIFIERS,
    PARENT_COMPANY,
    WALKED,
    AccessModel,
    MatrixRequest,
    compared_member,
)

Spell = Callable[[AccessModel, str, str], str]  # estate, company, resource -> the identifier as it is sent

UNKNOWN = "unknown"
_PAGE = 3
_SCHEMAS = {operation.path: operation.schema for operation in OPERATIONS}
# What makes every record of an index visible, where the operation has it.
_WIDEST = {"updated_since": "1", "market_status": "all", "page_size": str(_PAGE)}
SHAPES: dict[str, dict[str, str]] = {
    "plain": {},
    "brief": {"timestamps_only": "true"},
    "underscored": {"underscore_response": "true"},
    "enclosed": {"envelope": "true"},
    "gone": {"deactivated": "true", "deactivated_since": "1"},
    "bought": {"include_buyer_listings": "true"},
    "head": {},
}


def _first(name: str) -> Spell:
    return lambda estate, company, resource: str(estate.of(resource, [company])[0]["record"][name])


def _agent(name: str) -> Spell:
    return lambda estate, company, _: str(estate.of("agents", [company])[0]["record"][name])


def _source(estate: AccessModel, company: str, _: str) -> str:
    return str(estate.of("agents", [company])[0]["source_agent_id"])


def _key(_: AccessModel, company: str, __: str) -> str:
    return company


def _number(estate: AccessModel, company: str, _: str) -> str:
    return estate.numbers[company]


def _office(estate: AccessModel, company: str, _: str) -> str:
    return str(estate.of("offices", [company])[0]["record"]["platform_office_id"])


def _joined(head: Spell, tail: Spell) -> Spell:
    return lambda *about: f"{head(*about)}:{tail(*about)}"


def _upper(spell: Spell) -> Spell:
    return lambda *about: spell(*about).upper()


_UUID, _LISTING = _agent("agent_uuid"), _first("PlatformListingId")
_PLATFORM = {
    "id": _agent("platform_agent_id"),
    "upper": _upper(_agent("platform_agent_id")),
    "key:internal": _joined(_key, _source),
    "number:internal": _joined(_number, _source),
}
FORMS: dict[str, dict[str, Spell]] = {
    COMPANY: {"key": _key, "number": _number, "name": _first("name")},
    PARENT_COMPANY: {"key": _key, "number": _number},
    "agent_uuid": {"uuid": _UUID, "upper": _upper(_UUID)},
    "platform_agent_id": _PLATFORM,
    "source_agent_id": {"internal": _source},
    "platform_office_id": {"id": _office},
    "platform_listing_id": {"id": _LISTING, "upper": _upper(_LISTING)},
    "last_platform_listing_id": {"id": _LISTING, "key:id": _joined(_key, _LISTING)},
    "platform_team_id": {"uuid": _first("uuid"), "upper": _upper(_first("uuid"))},
    "guid": {
        **_PLATFORM,
        "uuid": _UUID,
        "upper": _upper(_UUID),
        "mail": _upper(_agent("platform_agent_id")),
        "internal": _source,
    },
}


def forms_of(path: str, name: str) -> dict[str, Spell]:
    """Return the forms of an identifier; that of a record in a path is at least taken as it is."""
    if name in FOUND_BY:
        return {"text": _first(compared_member(path.split("/")[1], name))}
    return FORMS.get(name) or {"id": _first(IDENTIFIERS[path.split("/")[1]])}


# What else narrows the request; `{key}` and `{number}` are the owner's.
CONTEXTS: dict[str, dict[str, str]] = {
    "whatever may be read": {},
    "the owner": {COMPANY: "{key}"},
    "a company": {COMPANY: "4101"},
    "another company": {COMPANY: "tidewater-brokers"},
    "a parent": {PARENT_COMPANY: PARENT},
    "another parent": {PARENT_COMPANY: "4200"},
    "the owner under a parent": {PARENT_COMPANY: PARENT, COMPANY: "{number}"},
    "the owner under another parent": {PARENT_COMPANY: "summit-crest", COMPANY: "{number}"},
}
# Only companies have a name that anybody could try as an identifier.
_NAMED_PATHS = ("/companies/{platform_company_id}",)


@dataclass(frozen=True)
class IdentifierProbe:
    """One identifier that an operation takes, in one form."""

    path: str
    place: str  # "path", "query", or "both": in the query, with another one in the path
    name: str
    form: str


@dataclass(frozen=True)
class MatrixCase:
    """A request of the matrix; `owner` is a company or UNKNOWN."""

    probe: IdentifierProbe
    owner: str
    key: str
    context: str
    shape: str


def probes() -> list[IdentifierProbe]:
    """Return every identifier of every operation, in every form that it has."""
    found = []
    for path, schema in _SCHEMAS.items():
        names = [("path", name) for name in re.findall(r"{(\w+)}", path)]
        names += [("query", name) for name, field in schema.fields.items() if isinstance(field, Text | Uuid)]
        # The path's identifier may be repeated in the query: the same one, or a different one.
        names += [("both", name) for place, name in names if place == "query" and ("path", name) in names]
        for place, name in names:
            forms = [form for form in forms_of(path, name) if form != "name" or path in _NAMED_PATHS]
            found += [IdentifierProbe(path, place, name, form) for form in forms]
        # No identifier at all: everything that the key may read.
        found += [] if "{" in path else [IdentifierProbe(path, "nowhere", "", "")]
    return found


def cases(estate: AccessModel) -> Iterator[MatrixCase]:
    """Yield the whole product."""
    for probe in probes():
        fields = _SCHEMAS[probe.path].fields.keys()
        shapes = [shape for shape, added in SHAPES.items() if added.keys() <= fields]
        contexts = [context for context, added in CONTEXTS.items() if added.keys() <= fields - {probe.name}]
        for choices in itertools.product((*estate.numbers, UNKNOWN), estate.grants, contexts, shapes):
            yield MatrixCase(probe, *choices)


def covering(everything: Iterable[MatrixCase], seed: int = 6) -> list[MatrixCase]:
    """Return cases that hold every pair of choices, and every operation with every owner and every key."""
    shuffled = list(everything)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - the same choice in every run
    seen: set[object] = set()
    chosen = []
    for case in shuffled:
        covered = _covered(case)
        if not covered <= seen:
            seen |= covered
            chosen.append(case)
    return chosen


def _covered(case: MatrixCase) -> set[object]:
    choices = (
        ("probe", case.probe),
        ("owner", case.owner),
        ("key", case.key),
        ("context", case.context),
        ("shape", case.shape),
    )
    return {*itertools.combinations(choices, 2), (case.probe.path, case.owner, case.key)}


def case_identifier(estate: AccessModel, case: MatrixCase) -> str:
    probe = case.probe
    if probe.place == "nowhere":
        return ""
    resource = probe.path.split("/")[1]
    company = next(iter(estate.numbers)) if case.owner == UNKNOWN else case.owner
    spelt = forms_of(probe.path, probe.name)[probe.form](estate, company, resource)
    return scrambled(spelt) if case.owner == UNKNOWN else spelt


def unknown_twins(probe: IdentifierProbe, sent: str) -> list[str]:
    """Return identifiers of the same form and length of which there are none."""
    if probe.place == "nowhere":
        return []
    if probe.name == "last_platform_listing_id":
        # Nothing is repeated of a cursor, and its place in the order must be the same.
        return [f"{sent}!"]
    head, colon, tail = sent.partition(":")
    return [scrambled(sent), *([f"{head}:{scrambled(tail)}"] if colon else [])]


def case_request(estate: AccessModel, case: MatrixCase, sent: str) -> MatrixRequest:
    probe, fields = case.probe, _SCHEMAS[case.probe.path].fields.keys()
    query = {name: text for name, text in _WIDEST.items() if name in fields} | SHAPES[case.shape]
    about = {"key": case.owner, "number": estate.numbers.get(case.owner, "7")}
    query |= {name: text.format(**about) for name, text in CONTEXTS[case.context].items()}
    if probe.place in {"query", "both"}:
        query[probe.name] = sent
    named = None
    if "{" in probe.path:
        is_sent = probe.place != "both" and f"{{{probe.name}}}" in probe.path
        named = sent if is_sent else _some_record(estate, case)
    return MatrixRequest(case.key, probe.path, named, query)


def _some_record(estate: AccessModel, case: MatrixCase) -> str:
    """Return what the path names while the identifier in question is in the query: the owner's, or another's."""
    resource = case.probe.path.split("/")[1]
    company = "evergreen-realty" if case.owner == UNKNOWN or case.probe.place == "both" else case.owner
    return str(estate.of(resource, [company])[0]["record"][IDENTIFIERS[resource]])


def first_page(verdict_identifiers: tuple[str, ...], request: MatrixRequest) -> list[str]:
    is_paged = request.named is None and "page_size" in request.query
    return list(verdict_identifiers[:_PAGE] if is_paged else verdict_identifiers)


def is_walked(request: MatrixRequest) -> bool:
    """Return whether pages follow each other by the last identifier."""
    return request.resource in WALKED and request.named is None


_HEX, _REST = "abcdef", "ghijklmnopqrstuvwxyz"
_SCRAMBLE = str.maketrans(
    string.digits + _HEX + _REST + _HEX.upper() + _REST.upper(),
    "7890123456" + "defabc" + _REST[7:] + _REST[:7] + "DEFABC" + (_REST[7:] + _REST[:7]).upper(),
)


def scrambled(text: str) -> str:
    """Return another text of the same form: a UUID stays a UUID, a number a number of as many digits."""
    return text.translate(_SCRAMBLE)
