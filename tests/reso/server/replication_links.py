"""Next links, and the replication endpoints of services that have one next to the ordinary pages.

By path: `/Property/replication` sends larger pages, takes neither an order nor `$skip`, and is continued by links that
can be requested again. By id: `Property?replication=true` is continued by one link that sends the following page each
time, so that a page that is lost on its way cannot be requested again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

import orjson

from tests.reso.query.paging import link
from tests.reso.server.error_responses import ODATA, ODataError, ServerResponse, bad_option, html_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.reso.query.paging import ServerPage
    from tests.reso.query.query_options import CollectionQuery
    from tests.reso.server.request_log import LoggedRequest
    from tests.reso.server.responses import ServerRequest
    from tests.reso.server.schema import EntityType
    from tests.reso.server.server_settings import ServerFault
    from tests.reso.server.store import Store

    Collection = Callable[[ServerRequest, EntityType, LoggedRequest, ServerFault | None], ServerResponse]

_ENDPOINT = "/replication"


class Replication:
    """Makes the links of pages, and remembers how far those of an id were read."""

    def __init__(self, store: Store, collection: Collection) -> None:
        """`collection` answers a request for a page."""
        self._store, self._collection = store, collection
        self._read_to: dict[str, dict[str, str]] = {}  # the options of the next page; none at the end

    @property
    def _way(self) -> str:
        return self._store.settings.dialect.replication

    def adapted(self, asked: ServerRequest, query: CollectionQuery) -> CollectionQuery:
        """Return a query with the page size and the links of the endpoint that it was sent to."""
        if asked.path.endswith(_ENDPOINT) and self._way == "by path":
            most = self._store.settings.dialect.max_page_of_replication
            return replace(query, top=None, preferred=query.top or query.preferred or most, most=most, paging="token")
        return replace(query, paging="token") if self._is_by_id(asked, query) else query

    def _is_by_id(self, asked: ServerRequest, query: CollectionQuery) -> bool:
        return self._way == "by id" and bool(asked.cursor or query.options.get("replication") == "true")

    def link_after(
        self, asked: ServerRequest, entity: EntityType, query: CollectionQuery, page: ServerPage
    ) -> str | None:
        """Return the link to the next page, None at the end."""
        if self._is_by_id(asked, query):
            number = asked.cursor or f"{len(self._read_to) + 1}-{entity.name}"
            self._read_to[number] = {name: text for name, text in (page.options or {}).items() if text}
            return f"{asked.root}/{entity.name}{_ENDPOINT}?id={number}"
        return None if page.options is None else link(f"{asked.root}{asked.path}", page.options)

    def respond(
        self, asked: ServerRequest, entity: EntityType, visit: LoggedRequest, fault: ServerFault | None
    ) -> ServerResponse:
        """Return a page of the replication endpoint."""
        if self._way == "by path":
            return self._by_path(asked, entity, visit, fault)
        options = dict(parse_qsl(asked.query))
        if self._way == "none" or "id" not in options:
            return html_page(404, f"Cannot GET {asked.path}")
        if (following := self._read_to.get(options["id"])) is None:
            raise ODataError(410, "41000", "This replication has ended", "id")
        if not following:
            body = {"value": [], "@odata.nextLink": f"{asked.root}{asked.path}?{asked.query}"}
            return ServerResponse(200, orjson.dumps(body), ODATA)
        continued = replace(asked, query=urlencode(following), cursor=options["id"])
        return self._collection(continued, entity, visit, fault)

    def _by_path(
        self, asked: ServerRequest, entity: EntityType, visit: LoggedRequest, fault: ServerFault | None
    ) -> ServerResponse:
        options = dict(parse_qsl(asked.query))
        dialect = self._store.settings.dialect
        for name in ("$orderby", "$skip", *(() if dialect.counts_replication else ("$count",))):
            if name in options:
                raise bad_option(name, "is not supported by replication")
        response = self._collection(asked, entity, visit, fault)
        body, headers = orjson.loads(response.body), dict[str, str]()
        following = body.get("@odata.nextLink")
        if "body" not in dialect.replication_links:
            body.pop("@odata.nextLink", None)
        if following is not None and "Link" in dialect.replication_links:
            headers["Link"] = f'<{asked.root}{asked.path}>; rel="first", <{following}>; rel="next"'
        if following is not None and "next" in dialect.replication_links:
            headers["next"] = following
        return ServerResponse(response.status, orjson.dumps(body), response.headers | headers)
