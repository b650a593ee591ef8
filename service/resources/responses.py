"""How operations respond: filters, a page by cursor or by number, a whole collection, one record."""

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Protocol, Self

from aiohttp import web
from marshmallow import Schema

from cluster.control_index import Mark
from mappings import RESOURCES
from mappings.fields import View, underscore
from mappings.resource import Resource
from service.errors import InvalidRequest, NotFound, ParameterFault
from service.http.requests import JSON, joined_lines, prefers
from service.http.responses import (
    NEXT_WATERMARK,
    TWO_MEDIA_TYPE_HEADERS,
    JsonBytes,
    json_array,
    json_response,
    link_header,
)
from service.operation import Operation
from service.parameters import DEFAULT_PAGE_SIZE, ClauseBuilder, Parameter
from service.projection import Variant
from service.request_context import UNDERSCORE_PARAMETER, ReadSpan, RequestContext
from service.scope import COMPANY_PARAMETER, PARENT_PARAMETER
from service.search.pages import all_records, batched_record, numbered_page, single_record, walk_page
from service.search.query import Clause, by_id, match_any, spellings, term, with_shown_address
from service.telemetry.observation import CURRENT_OBSERVATION, FeedPage


@dataclass(frozen=True, kw_only=True)
class FilterRule:
    """A filter beyond a single parameter's clause: it combines several parameters, or looks up a reference first.

    `parameters` are the parameters it reads, `fields` the search fields that its clauses use. A rule that is not
    `always` applied has no clauses unless one of its parameters is sent.
    """

    parameters: tuple[str, ...]
    fields: tuple[str, ...]
    clauses: Callable[[RequestContext], Awaitable[list[Clause]]]
    always: bool = True


async def filter_clauses(
    call: RequestContext, rules: Sequence[FilterRule], address_fields: frozenset[str] = frozenset()
) -> tuple[Clause, ...]:
    """Return the clauses of all parameters and rules; raise ApiError for an invalid reference.

    `address_fields` are search fields of addresses, by which hidden ones are not found (`mappings.visibility`).
    """
    sent, hidden = call.parameters, address_fields if address_fields and call.visibility.display else frozenset[str]()
    clauses: list[Clause] = []
    for name, builder in _builders(call.schema):
        if (sent[name] is not None or builder.default) and (clause := builder.clause(sent[name], sent)):
            clauses.append(with_shown_address(clause) if builder.field in hidden else clause)
    faults: list[ParameterFault] = []
    for rule in rules:
        if rule.always or any(map(sent.get, rule.parameters)):
            try:
                found = await rule.clauses(call)
            except InvalidRequest as error:
                faults += error.faults
            else:
                clauses += found if hidden.isdisjoint(rule.fields) else map(with_shown_address, found)
    if faults:
        raise InvalidRequest(*faults)
    return tuple(clauses)


@cache
def _builders(schema: Schema) -> tuple[tuple[str, ClauseBuilder], ...]:
    parameters = {name: field for name, field in schema.fields.items() if isinstance(field, Parameter)}
    return tuple((name, parameter.clause) for name, parameter in parameters.items() if parameter.clause is not None)


BRIEF = "timestamps_only"
ENVELOPE = "envelope"
UPDATED_SINCE = "updated_since"


class Envelope(Enum):
    """The JSON around the records of a body."""

    NONE = "none"  # the record alone
    ARRAY = "array"
    NUMBERED_PAGE = "numbered page"  # {page_number, total_pages, <alias>}
    WALK_PAGE = "walk page"  # {FinalPage, Listings}


@dataclass(frozen=True)
class ResourceResponse(ABC):
    """The response of an operation on one resource. `rules` are filters in addition to the parameters' clauses.

    It both serves requests and describes the operation in the OpenAPI document.
    """

    resource: Resource
    rules: tuple[FilterRule, ...] = ()
    view: ClassVar[View] = View.INDEX
    own_parameters: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    async def __call__(self, call: RequestContext) -> web.Response:
        """Return the response to an accepted request; raise ApiError."""

    @abstractmethod
    def envelopes(self, schema: Schema) -> tuple[Envelope, ...]:
        """Return the envelopes that the parameters can select, the default first."""

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters for scope, paging and record form, which need no clause."""
        return (
            self.own_parameters
            | {COMPANY_PARAMETER, PARENT_PARAMETER, UNDERSCORE_PARAMETER}
            | self.resource.flags[self.view].keys()
        )

    @property
    def operation_id(self) -> str:
        """The name of the operation in generated clients, such as `list_offices`."""
        if self.view is View.SHOW:
            return f"show_{underscore(self.resource.name)}"
        return f"list_{self.resource.alias}"

    @property
    def summary(self) -> str:
        """The summary of the operation, without a full stop."""
        if self.view is View.SHOW:
            return f"Get {'an' if self.resource.title[0] in 'aeiou' else 'a'} {self.resource.title}"
        return f"List {self.resource.alias.replace('_', ' ')}"


def response_of(operation: Operation) -> ResourceResponse:
    """Return the response of an operation of the contract; raise TypeError for one of the feed."""
    if not isinstance(operation.handler, ResourceResponse):
        raise TypeError(f"{operation.path} does not return records of one resource")
    return operation.handler


_SECOND = 1_000  # milliseconds
_AHEAD = 3_600_000  # milliseconds; the clocks of hosts that work together differ by less


async def with_true_watermark(call: RequestContext, resource: Resource) -> RequestContext:
    """Return the request with the `updated_since` from which its sender must continue to miss nothing.

    A window that the service chose, because none was sent, is not changed.
    """
    if not (since := call.parameters.get(UPDATED_SINCE)):
        return call
    mark, given = await call.services.indices[resource].mark.get(), since * _SECOND
    if mark is None or (not mark.resend_before and given > mark.void):
        return call  # nothing was undone, nor stamped again after that time
    if (clock := _clock_to_resume(mark, given)) == given:
        return call
    return replace(call, parameters={**call.parameters, UPDATED_SINCE: clock // _SECOND})


def _clock_to_resume(mark: Mark, given: int) -> int:
    """Return the clock from which a reader must continue; all are in milliseconds since 1970.

    After a restore, a time far ahead of all that was published is a watermark of what was undone, under a wrong clock.
    """
    clock = mark.clock_to_resume(given)
    latest = max(mark.clock, int(time.time()) * _SECOND + _AHEAD)
    return 0 if mark.resend_before and clock > latest else clock


CURSOR = "last_platform_listing_id"
# How consumers read, as the console calls it.
PAGES_METHOD = "pages"
# The members of a page in both spellings: whether it is the last one, and its records.
FINAL_PAGE = ("FinalPage", "final_page")
RECORDS = ("Listings", "listings")


class RecordFormat(Protocol):
    """A format of records besides JSON, which some resources have."""

    media_type: str

    def applies_to(self, resource: Resource) -> bool:
        """Return whether the resource has this format."""

    def require(self, parameters: Mapping[str, Any]) -> None:
        """Raise InvalidRequest if the parameters of a request forbid it."""

    def page(self, variant: Variant, records: Sequence[JsonBytes], *, is_final: bool) -> list[JsonBytes]:
        """Return the parts of the body of a page."""

    def record(self, variant: Variant, record: JsonBytes) -> list[JsonBytes]:
        """Return the parts of the body of one record."""


class RecordFormats(dict[Resource, tuple[RecordFormat, ...]]):
    """The formats that are installed, by resource."""

    @classmethod
    def of(cls, formats: Sequence[RecordFormat]) -> Self:
        return cls({resource: tuple(form for form in formats if form.applies_to(resource)) for resource in RESOURCES})


def chosen_format(call: RequestContext, formats: Sequence[RecordFormat]) -> RecordFormat | None:
    """Return the format that the client prefers, None for JSON; raise InvalidRequest if its parameters forbid it."""
    accept = joined_lines(call.client.headers, "Accept")
    for record_format in formats:
        if prefers(accept, record_format.media_type):
            record_format.require(call.parameters)
            return record_format
    return None


@dataclass(frozen=True)
class WalkResponse(ResourceResponse):
    """A page of a feed: `{FinalPage, Listings}`, or another format if the client prefers that."""

    own_parameters: ClassVar[frozenset[str]] = frozenset({CURSOR, "page_size", BRIEF})

    async def __call__(self, call: RequestContext) -> web.Response:
        """Return the page after the record that `last_platform_listing_id` names."""
        call = await with_true_watermark(call, self.resource)
        clauses = await filter_clauses(call, self.rules, self.resource.address_fields)
        variant = call.variant(self.resource, self.view)
        formats = call.services.state[RecordFormats][self.resource]
        chosen = chosen_format(call, formats)
        watermark = await next_watermark(call, self.resource)
        selection = call.selection(self.resource, clauses)
        page = await walk_page(call, selection, variant, call.parameters["page_size"])
        span = ReadSpan(call.parameters[CURSOR], page.last, is_final=page.is_final)
        CURRENT_OBSERVATION.get().page = _observed(call, self.resource, watermark, span)
        following = {} if page.is_final else {"next": {CURSOR: page.last}}
        media_type, encode = (JSON, _page_body) if chosen is None else (chosen.media_type, chosen.page)
        body = encode(variant, page.records, is_final=page.is_final)
        headers = {
            **(TWO_MEDIA_TYPE_HEADERS if formats else {}),
            **watermark,
            **link_header(call.client.url, following),
        }
        return json_response(body, headers, media_type, records=len(page.records))

    def envelopes(self, schema: Schema) -> tuple[Envelope, ...]:  # noqa: ARG002 - the same for all parameters
        """Return the envelope of a cursor page alone."""
        return (Envelope.WALK_PAGE,)


def _observed(call: RequestContext, resource: Resource, watermark: dict[str, str], span: ReadSpan) -> FeedPage:
    """Return what a request has read; `watermark` is the header that came with the first page."""
    sent = call.parameters
    return FeedPage(
        method=PAGES_METHOD,
        resource=resource.alias,
        company=sent.get(COMPANY_PARAMETER) or "",
        after=span.after,
        last=span.last,
        updated_since=sent[UPDATED_SINCE],
        is_final=span.is_final,
        watermark=int(watermark[NEXT_WATERMARK]) or None if watermark else None,
    )


def _page_body(variant: Variant, records: Sequence[JsonBytes], *, is_final: bool) -> list[JsonBytes]:
    final_page, listings = FINAL_PAGE[variant.underscored], RECORDS[variant.underscored]
    truth = "true" if is_final else "false"
    return json_array(records, f'{{"{final_page}":{truth},"{listings}":'.encode(), b"}")


async def next_watermark(call: RequestContext, resource: Resource) -> dict[str, str]:
    """Return the header with the `updated_since` of the next walk, on the first page of a walk alone.

    Its value is the indexer's mark, read long enough ago that every search of this walk, in any process, starts later:
    the pages contain everything stamped up to the mark. It is 0 before the first load, whose records have times of the
    source: the next walk reads all of them.
    """
    if call.parameters.get(CURSOR) or (call.parameters.get("page_number") or 1) > 1:
        return {}
    # In an index of several shards, a walk of several companies sees records where they were at the mark.
    is_by_mark = call.scope.single_company is None and call.served_shards(resource) is not None
    mark = await call.services.indices[resource].mark.settled(everywhere=is_by_mark)
    return {NEXT_WATERMARK: str(mark.clock // 1000) if mark else "0"}


@dataclass(frozen=True)
class PageResponse(ResourceResponse):
    """A page by its number: an array with the paging in headers, or `{page_number, total_pages, <alias>}`.

    It is the object if `is_enclosed` is set or the client sends `envelope`.
    """

    is_enclosed: bool = False
    own_parameters: ClassVar[frozenset[str]] = frozenset({"page_number", "page_size", BRIEF, ENVELOPE})

    async def __call__(self, call: RequestContext) -> web.Response:
        """Return the page that `page_number` and `page_size` select."""
        call = await with_true_watermark(call, self.resource)
        clauses = await filter_clauses(call, self.rules, self.resource.address_fields)
        watermark = await next_watermark(call, self.resource) if UPDATED_SINCE in call.parameters else {}
        variant = call.variant(self.resource, self.view)
        page = await numbered_page(call, call.selection(self.resource, clauses), variant, call.parameters["page_size"])
        if call.parameters.get(UPDATED_SINCE) is not None:
            before = None if page.number == 1 else f"page {page.number - 1}"
            span = ReadSpan(before, f"page {page.number}", is_final=page.number >= page.total_pages)
            CURRENT_OBSERVATION.get().page = _observed(call, self.resource, watermark, span)
        is_enclosed = self.is_enclosed or call.parameters.get(ENVELOPE)
        body = page.to_json(self.resource.alias) if is_enclosed else json_array(page.records)
        return json_response(body, {**page.headers(call), **watermark}, records=len(page.records))

    def envelopes(self, schema: Schema) -> tuple[Envelope, ...]:
        """Return one envelope, or both if the operation has the parameter `envelope`."""
        if self.is_enclosed:
            return (Envelope.NUMBERED_PAGE,)
        return (Envelope.ARRAY, Envelope.NUMBERED_PAGE) if ENVELOPE in schema.fields else (Envelope.ARRAY,)


@dataclass(frozen=True)
class CollectionResponse(ResourceResponse):
    """Every record of the scope as an array, or the page that `page_number` or `page_size` selects."""

    own_parameters: ClassVar[frozenset[str]] = frozenset({"page_number", "page_size"})

    async def __call__(self, call: RequestContext) -> web.Response:
        clauses = await filter_clauses(call, self.rules, self.resource.address_fields)
        selection, variant = call.selection(self.resource, clauses), call.variant(self.resource, self.view)
        if call.parameters["page_number"] is None and call.parameters["page_size"] is None:
            records = await all_records(call, selection, variant)
            return json_response(json_array(records), records=len(records))
        page = await numbered_page(call, selection, variant, call.parameters["page_size"] or DEFAULT_PAGE_SIZE)
        return json_response(json_array(page.records), page.headers(call), records=len(page.records))

    def envelopes(self, schema: Schema) -> tuple[Envelope, ...]:  # noqa: ARG002 - the same for all parameters
        """Return the array envelope alone."""
        return (Envelope.ARRAY,)


@dataclass(frozen=True)
class RecordResponse(ResourceResponse):
    """The record in the path, or 404, also for a record outside the scope.

    `alternative` is another search field that identifies the record.
    """

    alternative: str = ""
    view: ClassVar[View] = View.SHOW

    async def __call__(self, call: RequestContext) -> web.Response:
        """Return the record, in another format if the client prefers that; raise NotFound."""
        [(variable, identifier)] = call.client.path.items()
        refuse_different_identifier(call, variable, identifier)
        variant = call.variant(self.resource, self.view)
        record = await self.find(call, identifier, variant)
        if record is None:
            call.note_absent(self.resource, identifier)
            raise NotFound(f"There is no {self.resource.title} {identifier!r}.")
        formats = call.services.state[RecordFormats][self.resource]
        headers = TWO_MEDIA_TYPE_HEADERS if formats else {}
        if (chosen := chosen_format(call, formats)) is None:
            return json_response([record], headers)
        return json_response(chosen.record(variant, record), headers, chosen.media_type)

    async def find(self, call: RequestContext, identifier: str, variant: Variant) -> JsonBytes | None:
        """Return the encoded record with an identifier, None if the scope has none."""
        if not self.alternative:
            return await self._find_spelled(call, identifier, variant)
        clause = match_any(by_id(identifier), term(self.alternative, identifier))
        return await single_record(call, call.selection(self.resource, (clause,)), variant)

    async def _find_spelled(self, call: RequestContext, identifier: str, variant: Variant) -> JsonBytes | None:
        for name in spellings(identifier):
            if (record := await batched_record(call, self.resource, name, variant)) is not None:
                return record
        return None

    def envelopes(self, schema: Schema) -> tuple[Envelope, ...]:  # noqa: ARG002 - the same for all parameters
        """Return the bare record alone."""
        return (Envelope.NONE,)


def refuse_different_identifier(call: RequestContext, variable: str, identifier: str) -> None:
    """Raise InvalidRequest if the query repeats the identifier with another value."""
    repeated = call.parameters.get(variable)
    if repeated is not None and {*spellings(repeated)}.isdisjoint(spellings(identifier)):
        raise InvalidRequest.of(variable, "differs from the identifier in the path.")
