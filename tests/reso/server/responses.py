"""Responses when no fault is injected: metadata, pages, records, refusals, and the replication endpoints of providers.

By path: `/Property/replication` sends larger pages, takes neither an order nor `$skip`, and is continued by links that
can be requested again. By id: `Property?replication=true` is continued by one link that sends the following page each
time, so that a page that is lost on its way cannot be requested again.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode
from xml.etree import ElementTree as ET

import orjson

from tests.reso.server.error_responses import ODATA, ODataError, ServerResponse, bad_option, html_page
from tests.reso.server.query import CollectionQuery, ServerPage, next_link, parse_query
from tests.reso.server.request_log import LoggedRequest
from tests.reso.server.schema import EVENTS, MODIFICATION_FIELD, EntityType, Record
from tests.reso.server.server_settings import INCOMPLETE_PAGES, Dialect
from tests.reso.server.store import Store

_PATH = re.compile(r"/(?P<resource>[A-Za-z]+)(?:\((?P<key>.*)\)|(?P<replication>/replication))?", re.DOTALL)
_NAMESPACE = "org.reso.metadata"
_EDMX, _EDM = "http://docs.oasis-open.org/odata/ns/edmx", "http://docs.oasis-open.org/odata/ns/edm"


@dataclass(frozen=True)
class ServerRequest:
    """A request, taken apart: the server's root as its client sees it, the path behind it still encoded."""

    root: str
    path: str
    query: str
    prefer: str
    cursor: str = ""  # the id of the replication that it continues

    @property
    def resource(self) -> str:
        return "oauth" if self.path == "/oauth/token" else re.split(r"[(/]", self.path.strip("/"))[0]

    @property
    def is_replication(self) -> bool:
        """Whether it is for a replication endpoint."""
        return self.path.endswith("/replication")


class ResponseBuilder:
    """Reads from a store, what it holds at each moment."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read_to: dict[str, dict[str, str]] = {}  # of replications by id, the options of the next page

    @property
    def _dialect(self) -> Dialect:
        return self._store.settings.dialect

    def respond(self, asked: ServerRequest, visit: LoggedRequest) -> ServerResponse:
        """Return the answer; raise ODataError for what is refused with an OData body."""
        if asked.path == "/$metadata":
            return metadata(self._store.entities.values(), self._dialect)
        path = _PATH.fullmatch(unquote(asked.path))
        entity = self._store.entities.get(path["resource"]) if path else None
        if path is None or entity is None or not self._store.is_addressable(entity.name):
            return html_page(404, f"Cannot GET {asked.path}")
        if entity.name in self._store.settings.withheld:
            raise ODataError(403, "40300", f"Your licence does not cover {entity.name}")
        if path["key"] is not None:
            return self._single(asked, entity, visit, path["key"])
        if not path["replication"]:
            return self._collection(asked, entity, visit)
        if self._dialect.replication == "by path":
            return self._by_path(asked, entity, visit)
        return self._by_id(asked, entity, visit)

    def _collection(self, asked: ServerRequest, entity: EntityType, visit: LoggedRequest) -> ServerResponse:
        query = self._query(asked, entity)
        page = self._store.page(query, visit.fault)
        visit.rows, visit.fields = len(page.rows), _sent(query) if page.rows else frozenset()
        if not page.is_truncated and visit.fault in INCOMPLETE_PAGES:
            visit.fault = None
        body: dict[str, Any] = {"@odata.context": f"{asked.root}/$metadata#{entity.name}"}
        if page.total is not None:
            body["@odata.count"] = page.total
        body["value"] = [self.shown(asked, row.record, query) for row in page.rows]
        if (following := self._link_after(asked, query, page)) is not None:
            body["@odata.nextLink"] = following
        return ServerResponse(200, orjson.dumps(body), ODATA)

    def _query(self, asked: ServerRequest, entity: EntityType) -> CollectionQuery:
        """Return the query with the page size and the links of the endpoint that it was sent to."""
        query = parse_query(entity, asked.query, asked.prefer, self._store.settings)
        if self._dialect.system and "$filter" not in query.options:
            raise bad_option("$filter", "a single OriginatingSystemName must be specified")
        if asked.is_replication and self._dialect.replication == "by path":
            most = self._dialect.max_page_of_replication
            return replace(query, top=None, preferred=query.top or query.preferred or most, most=most, paging="token")
        return replace(query, paging="token") if self._is_by_id(asked, query) else query

    def _is_by_id(self, asked: ServerRequest, query: CollectionQuery) -> bool:
        is_first = query.options.get("replication") == "true"
        return self._dialect.replication == "by id" and bool(asked.cursor or is_first)

    def _link_after(self, asked: ServerRequest, query: CollectionQuery, page: ServerPage) -> str | None:
        if self._is_by_id(asked, query):
            number = asked.cursor or f"{len(self._read_to) + 1}-{query.entity.name}"
            self._read_to[number] = {name: text for name, text in (page.options or {}).items() if text}
            return f"{asked.root}/{query.entity.name}/replication?id={number}"
        return None if page.options is None else next_link(f"{asked.root}{asked.path}", page.options)

    def _by_id(self, asked: ServerRequest, entity: EntityType, visit: LoggedRequest) -> ServerResponse:
        number = dict(parse_qsl(asked.query)).get("id", "")
        if (following := self._read_to.get(number)) is None:
            raise ODataError(410, "41000", "This replication has ended")
        if not following:
            body = {"value": [], "@odata.nextLink": f"{asked.root}{asked.path}?{asked.query}"}
            return ServerResponse(200, orjson.dumps(body), ODATA)
        return self._collection(replace(asked, query=urlencode(following), cursor=number), entity, visit)

    def _by_path(self, asked: ServerRequest, entity: EntityType, visit: LoggedRequest) -> ServerResponse:
        places = self._dialect.replication_links
        unknown = {"$orderby", "$skip", *(() if self._dialect.counts_replication else ("$count",))}
        if refused := sorted(unknown & dict(parse_qsl(asked.query)).keys()):
            raise bad_option(refused[0], "is not supported by replication")
        response = self._collection(asked, entity, visit)
        body, headers = orjson.loads(response.body), dict(response.headers)
        if (following := body.get("@odata.nextLink")) is not None:
            if "body" not in places:
                del body["@odata.nextLink"]
            if "Link" in places:
                headers["Link"] = f'<{asked.root}{asked.path}>; rel="first", <{following}>; rel="next"'
            if "next" in places:
                headers["next"] = following
        return ServerResponse(response.status, orjson.dumps(body), headers)

    def _single(self, asked: ServerRequest, entity: EntityType, visit: LoggedRequest, key: str) -> ServerResponse:
        query = parse_query(entity, asked.query, "", self._store.settings)
        is_quoted = len(key) > 1 and key[0] == key[-1] == "'"
        if is_quoted is (self._dialect.keys == "number"):
            return html_page(404, f"Cannot GET {asked.path}")
        record = self._store.get(entity.name, key[1:-1].replace("''", "'") if is_quoted else int(key))
        if record is None:
            raise ODataError(404, "40400", f"{entity.name} has no record {key}")
        visit.rows, visit.fields = 1, _sent(query)
        return ServerResponse(200, orjson.dumps(self.shown(asked, record, query)), ODATA)

    def shown(self, asked: ServerRequest, record: Record, query: CollectionQuery) -> Record:
        """Return a record as it is sent: what is selected of it, with its children."""
        entity = query.entity
        if entity.name == EVENTS:
            key = quote(record["ResourceRecordKey"].replace("'", "''"), safe="'")
            record = record | {"ResourceRecordUrl": f"{asked.root}/{record['ResourceName']}('{key}')"}
        elif self._store.settings.shows_milliseconds:
            record = record | {MODIFICATION_FIELD: f"{record[MODIFICATION_FIELD][:23]}Z"}
        embedded = self._dialect.embedded.get(entity.name, ())
        selected = entity.fields if query.select is None else query.select
        children = dict.fromkeys(name for name in embedded if name in selected) | dict(query.expand)
        return {name: record.get(name) for name in selected if name not in children} | {
            self._dialect.member_names.get(child, child): [
                _only(row, fields) for row in self._store.children_of(entity.name, record[entity.key], child)
            ]
            for child, fields in children.items()
        }


def _only(record: Record, fields: tuple[str, ...] | None) -> Record:
    return record if fields is None else {name: record.get(name) for name in fields}


def _sent(query: CollectionQuery) -> frozenset[str]:
    return frozenset(query.entity.fields if query.select is None else query.select) | frozenset(query.expand)


def metadata(entities: Iterable[EntityType], dialect: Dialect) -> ServerResponse:
    """Return the EDMX of entity types, and of the entity sets that a dialect has, in one schema."""
    root = ET.Element("edmx:Edmx", {"xmlns:edmx": _EDMX, "Version": "4.0"})
    schema = ET.SubElement(ET.SubElement(root, "edmx:DataServices"), "Schema", {"xmlns": _EDM, "Namespace": _NAMESPACE})
    container = ET.Element("EntityContainer", {"Name": "Container"})
    for entity in entities:
        described = ET.SubElement(schema, "EntityType", {"Name": entity.name})
        ET.SubElement(ET.SubElement(described, "Key"), "PropertyRef", {"Name": entity.key})
        for field, kind in entity.fields.items():
            ET.SubElement(described, "Property", {"Name": field, "Type": kind})
        for member, child in dialect.expanded_members(entity.name).items():
            kind = f"Collection({_NAMESPACE}.{child})"
            ET.SubElement(described, "NavigationProperty", {"Name": member, "Type": kind})
        if entity.name not in dialect.not_addressable:
            kind = f"{_NAMESPACE}.{entity.name}"
            ET.SubElement(container, "EntitySet", {"Name": entity.name, "EntityType": kind})
    schema.append(container)
    body = ET.tostring(root, "utf-8", xml_declaration=True)
    return ServerResponse(200, body, ODATA | {"Content-Type": "application/xml"})
