"""What a request is answered with when nothing goes wrong on the way: resources, records, metadata, refusals."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import orjson

from tests.reso.faults import OF_COLLECTIONS
from tests.reso.metadata import metadata, service_document
from tests.reso.paging import link
from tests.reso.problems import ODATA, Answer, Problem, page_of_html
from tests.reso.query import read_query
from tests.reso.schema import EVENTS

if TYPE_CHECKING:
    from tests.reso.ledger import Visit
    from tests.reso.query import Query
    from tests.reso.schema import EntityType, Record
    from tests.reso.settings import Fault
    from tests.reso.store import Store

_PATH = re.compile(r"/(?P<resource>[A-Za-z]+)(?:\('(?P<key>.*)'\))?", re.DOTALL)
_READ_ONLY = frozenset({"Lookup", EVENTS})


@dataclass(frozen=True)
class Asked:
    """A request, taken apart: the server's root as its client sees it, the path behind it still encoded."""

    root: str
    method: str
    path: str
    query: str
    prefer: str


def resource_of(path: str) -> str:
    """Return which resource a path behind the root is about, for accounts and faults."""
    named = path.strip("/").partition("(")[0]
    return "oauth" if path == "/oauth/token" else named


class Answers:
    """Reads from a store."""

    def __init__(self, store: Store) -> None:
        """Answer from what it holds at each moment."""
        self._store = store

    def answer(self, asked: Asked, visit: Visit, fault: Fault | None) -> Answer:
        """Return the answer; raise Problem for what is refused with an OData body."""
        path = _PATH.fullmatch(unquote(asked.path))
        entity = self._store.entities.get(path["resource"]) if path else None
        if asked.method != "GET":
            return _refuse_write(asked, entity)
        if asked.path == "/$metadata":
            return metadata(self._store.entities)
        if asked.path in {"", "/"}:
            return service_document(asked.root, self._store.entities)
        if path is None or entity is None:
            return page_of_html(404, f"Cannot GET {asked.path}")
        if entity.name in self._store.settings.withheld:
            raise Problem(403, "40300", f"Your licence does not cover {entity.name}", entity.name)
        if path["key"] is None:
            return self._collection(asked, entity, visit, fault)
        return self._single(asked, entity, visit, path["key"].replace("''", "'"))

    def _collection(self, asked: Asked, entity: EntityType, visit: Visit, fault: Fault | None) -> Answer:
        query = read_query(entity, asked.query, asked.prefer, self._store.settings)
        if self._store.is_expired(query):
            raise Problem(410, "41000", "This link does not hold any more", "$skiptoken")
        page = self._store.page(entity.name, query, fault)
        visit.rows, visit.fields = len(page.rows), _sent(entity, query) if page.rows else frozenset()
        if not page.was_broken and visit.fault in OF_COLLECTIONS:
            visit.fault = None
        body: dict[str, Any] = {"@odata.context": f"{asked.root}/$metadata#{entity.name}"}
        if page.count is not None:
            body["@odata.count"] = page.count
        body["value"] = [self._shown(asked, entity, row.record, query.select) for row in page.rows]
        if page.options is not None:
            body["@odata.nextLink"] = link(f"{asked.root}/{entity.name}", page.options)
        return Answer(200, orjson.dumps(body), ODATA | _applied(query, self._store.settings.max_page))

    def _single(self, asked: Asked, entity: EntityType, visit: Visit, key: str) -> Answer:
        query = read_query(entity, asked.query, "", self._store.settings)
        numeric = entity.name == EVENTS
        record = self._store.get(entity.name, int(key) if numeric and key.isdecimal() else key)
        if record is None:
            raise Problem(404, "40400", f"{entity.name} has no record {key}", entity.name)
        visit.rows, visit.fields = 1, _sent(entity, query)
        context = {"@odata.context": f"{asked.root}/$metadata#{entity.name}/$entity"}
        return Answer(200, orjson.dumps(context | self._shown(asked, entity, record, query.select)), ODATA)

    def _shown(self, asked: Asked, entity: EntityType, record: Record, select: tuple[str, ...] | None) -> Record:
        if entity.name == EVENTS:
            key = quote(record["ResourceRecordKey"].replace("'", "''"), safe="'")
            record = record | {"ResourceRecordUrl": f"{asked.root}/{record['ResourceName']}('{key}')"}
        if select is not None:
            return {name: record.get(name) for name in select}
        if not self._store.settings.without:
            return record
        return {name: value for name, value in record.items() if name in entity.fields}


def _sent(entity: EntityType, query: Query) -> frozenset[str]:
    return frozenset(entity.fields if query.select is None else query.select)


def _applied(query: Query, most: int) -> dict[str, str]:
    if query.preferred is None:
        return {}
    return {"Preference-Applied": f"odata.maxpagesize={min(query.preferred, most)}"}


def _refuse_write(asked: Asked, entity: EntityType | None) -> Answer:
    if entity is None or entity.name in _READ_ONLY:
        return page_of_html(404, f"Cannot {asked.method} {asked.path}")
    raise Problem(405, "40500", "This server is read with GET alone", entity.name)


def tagged(answer: Answer, known: str) -> Answer:
    """Return an answer with a weak ETag over its body, without the body if the client knows it."""
    if answer.status != 200:
        return answer
    tag = f'W/"{len(answer.body):x}-{zlib.crc32(answer.body):08x}"'
    headers = answer.headers | {"ETag": tag}
    return Answer(304, b"", headers) if known == tag else Answer(200, answer.body, headers)
