"""HEAD is GET without the body, on every path that the document describes."""

import pytest
from aiohttp import ClientResponse

from service.resources import OPERATIONS
from tests.contract.request_variants import request_parameters, request_paths
from tests.contract.world import World
from tests.openapi.document_validators import GET_OPERATIONS, absolute_path

_OPERATIONS = {operation.path: operation for operation in OPERATIONS}
_STREAMED, _HISTORY = "/snapshot/{resource}", "/history"
# Published files need a folder of them: tests/exports compares HEAD and GET.
_PATHS = [path for path in GET_OPERATIONS if not path.startswith("/exports/")]
# HEAD need not say how a body that it does not have would be framed.
_VARYING = {"date", "x-request-id", "transfer-encoding"}


def _asked(world: World, path: str) -> tuple[str, dict[str, str]]:
    """Return a path with identifiers of the source, and parameters for a page that has another behind it."""
    if path.endswith(_HISTORY):
        url, _ = _asked(world, path.removesuffix(_HISTORY))
        return url + _HISTORY, {}
    if path not in _OPERATIONS:
        return absolute_path(path).replace("{resource}", "listings"), {}
    operation = _OPERATIONS[path]
    sent = request_parameters(world, operation) | ({"page_size": 2} if "page_size" in operation.schema.fields else {})
    return absolute_path(path).removesuffix(path) + request_paths(world, operation)[0], {
        name: str(value) for name, value in sent.items()
    }


@pytest.mark.parametrize("sent", [{}, {"Accept-Encoding": "gzip"}, {"If-None-Match": "*"}], ids="".join)
@pytest.mark.parametrize("path", _PATHS)
async def test_head_has_the_status_and_the_headers_of_get(world: World, path: str, sent: dict[str, str]) -> None:
    url, query = _asked(world, path)
    headers = {"x-api-key": world.keys["all"], **sent}
    async with world.http.get(url, params=query, headers=headers) as got:
        # A snapshot keeps one of the few slots of its key until it has been read.
        await got.read()
    async with world.http.head(url, params=query, headers=headers) as head:
        assert (head.status, await head.read()) == (got.status, b"")
        assert got.status == (304 if "If-None-Match" in sent and "ETag" in got.headers else 200)
        assert _headers(head) == _headers(got)
        # The length that GET sends: 304 has none, and that of a stream is not known before.
        assert ("content-length" in _headers(head)) is (got.status == 200 and path != _STREAMED)


def _headers(response: ClientResponse) -> dict[str, str]:
    reported = {name.lower(): value for name, value in response.headers.items()}
    return {name: value for name, value in reported.items() if name not in _VARYING}
