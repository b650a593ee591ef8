"""Responses when no fault is injected: resources, records, metadata, refusals."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import orjson

from tests.reso.query.query_options import check_dialect, parse_query
from tests.reso.server.error_responses import ODATA, ODataError, ServerResponse, html_page
from tests.reso.server.fault_injection import OF_COLLECTIONS
from tests.reso.server.replication_links import Replication
from tests.reso.server.schema import EVENTS
from tests.reso.server.server_metadata import metadata, service_document

if TYPE_CHECKING:
    from tests.reso.query.query_options import CollectionQuery
    from tests.reso.server.request_log import LoggedRequest
    from tests.reso.server.schema import EntityType, Record
    from tests.reso.server.server_settings import ServerFault
    from tests.reso.server.store import Store

_PATH = re.compile(r"/(?P<resource>[A-Za-z]+)(?:\((?P<key>.*)\)|(?P<replication>/replication))?", re.DOTALL)
_READ_ONLY = frozenset({"Lookup", EVENTS})


@dataclass(frozen=True)
class ServerRequest:
    """A request, taken apart: the server's root as its client sees it, the path behind it still encoded."""

    root: str
    method: str
    path: str
    query: str
    prefer: str
    cursor: str = ""  # the id of the replication that it continues


def resource_of(path: str) -> str:
    """Return which resource a path behind the root is about, for accounts and faults."""
    named = path.strip("/").partition("(")[0].partition("/")[0]
    return "oauth" if path == "/oauth/token" else named


class ResponseBuilder:
    """Reads from a store."""

    def __init__(self, store: Store) -> None:
        """Answer from what it holds at each moment."""
        self._store = store
        self._replication = Replication(store, self.collection)

    def respond(self, asked: ServerRequest, visit: LoggedRequest, fault: ServerFault | None) -> ServerResponse:
        """Return the answer; raise Problem for what is refused with an OData body."""
        path = _PATH.fullmatch(unquote(asked.path))
        entity = self._store.entities.get(path["resource"]) if path else None
        if asked.method != "GET":
            return _refuse_write(asked, entity)
        if asked.path == "/$metadata":
            return metadata(self._store.entities, self._store.settings.dialect)
        if asked.path in {"", "/"}:
            return service_document(asked.root, self._store.entities, self._store.settings.dialect)
        if path is None or entity is None or not self._store.is_addressable(entity.name):
            return html_page(404, f"Cannot GET {asked.path}")
        if entity.name in self._store.settings.withheld:
            raise ODataError(403, "40300", f"Your licence does not cover {entity.name}", entity.name)
        if path["key"] is not None:
            return self._single(asked, entity, visit, path["key"])
        return (self._replication.respond if path["replication"] else self.collection)(asked, entity, visit, fault)

    def collection(
        self, asked: ServerRequest, entity: EntityType, visit: LoggedRequest, fault: ServerFault | None
    ) -> ServerResponse:
        """Return a page."""
        query = parse_query(entity, asked.query, asked.prefer, self._store.settings)
        query = self._replication.adapted(asked, query)
        if self._store.is_expired(query):
            raise ODataError(410, "41000", "This link does not hold any more", "$skiptoken")
        check_dialect(entity, query, self._store.settings)
        page = self._store.page(entity.name, query, fault)
        visit.rows, visit.fields = len(page.rows), _sent(entity, query) if page.rows else frozenset()
        if not page.is_truncated and visit.fault in OF_COLLECTIONS:
            visit.fault = None
        body: dict[str, Any] = {"@odata.context": f"{asked.root}/$metadata#{entity.name}"}
        if page.count is not None:
            body["@odata.count"] = page.count
        body["value"] = [self._shown(asked, entity, row.record, query) for row in page.rows]
        if (following := self._replication.link_after(asked, entity, query, page)) is not None:
            body["@odata.nextLink"] = following
        return ServerResponse(200, orjson.dumps(body), ODATA | _applied(query, self._store.settings.max_page))

    def _single(self, asked: ServerRequest, entity: EntityType, visit: LoggedRequest, key: str) -> ServerResponse:
        query = parse_query(entity, asked.query, "", self._store.settings)
        if (literal := self._literal(key)) is None:
            return html_page(404, f"Cannot GET {asked.path}")
        is_event = entity.name == EVENTS and isinstance(literal, str) and literal.isdecimal()
        record = self._store.get(entity.name, int(literal) if is_event else literal)
        if record is None:
            raise ODataError(404, "40400", f"{entity.name} has no record {key}", entity.name)
        visit.rows, visit.fields = 1, _sent(entity, query)
        context = {"@odata.context": f"{asked.root}/$metadata#{entity.name}/$entity"}
        return ServerResponse(200, orjson.dumps(context | self._shown(asked, entity, record, query)), ODATA)

    def _literal(self, text: str) -> str | int | None:
        """Return the key of a path: quoted text, or a number where keys are numbers; None for anything else."""
        if self._store.settings.dialect.keys == "number" and text.isdecimal():
            return int(text)
        is_quoted = len(text) > 1 and text[0] == text[-1] == "'"
        return text[1:-1].replace("''", "'") if is_quoted else None

    def _shown(self, asked: ServerRequest, entity: EntityType, record: Record, query: CollectionQuery) -> Record:
        sent = self._own_fields(asked, entity, record, query.select)
        embedded = self._store.settings.dialect.embedded.get(entity.name, ())
        chosen = [name for name in embedded if query.select is None or name in query.select]
        children = dict.fromkeys(chosen) | dict(query.expand)
        key = record[entity.key]
        return sent | {
            child: [_only(row, fields) for row in self._store.children_of(entity.name, key, child)]
            for child, fields in children.items()
        }

    def _own_fields(
        self, asked: ServerRequest, entity: EntityType, record: Record, select: tuple[str, ...] | None
    ) -> Record:
        if entity.name == EVENTS:
            key = quote(record["ResourceRecordKey"].replace("'", "''"), safe="'")
            record = record | {"ResourceRecordUrl": f"{asked.root}/{record['ResourceName']}('{key}')"}
        if select is not None:
            return {name: record.get(name) for name in select}
        if not self._store.settings.without:
            return record
        return {name: value for name, value in record.items() if name in entity.fields}


def _only(record: Record, fields: tuple[str, ...] | None) -> Record:
    return record if fields is None else {name: record.get(name) for name in fields}


def _sent(entity: EntityType, query: CollectionQuery) -> frozenset[str]:
    return frozenset(entity.fields if query.select is None else query.select) | frozenset(query.expand)


def _applied(query: CollectionQuery, most: int) -> dict[str, str]:
    if query.preferred is None:
        return {}
    return {"Preference-Applied": f"odata.maxpagesize={min(query.preferred, most)}"}


def _refuse_write(asked: ServerRequest, entity: EntityType | None) -> ServerResponse:
    if entity is None or entity.name in _READ_ONLY:
        return html_page(404, f"Cannot {asked.method} {asked.path}")
    raise ODataError(405, "40500", "This server is read with GET alone", entity.name)


def with_etag(answer: ServerResponse, known: str) -> ServerResponse:
    """Return an answer with a weak ETag over its body, without the body if the client knows it."""
    if answer.status != 200:
        return answer
    tag = f'W/"{len(answer.body):x}-{zlib.crc32(answer.body):08x}"'
    headers = answer.headers | {"ETag": tag}
    return ServerResponse(304, b"", headers) if known == tag else ServerResponse(200, answer.body, headers)
