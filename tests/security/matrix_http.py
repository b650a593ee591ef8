"""Requests of the matrix over HTTP, and what of an answer may depend on nothing that the key may not read."""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import orjson
from yarl import URL

from tests.contract.world import World
from tests.security.expected_access import IDENTIFIERS, ExpectedResponse, MatrixRequest
from tests.security.scope_matrix import first_page, is_walked

# These differ from answer to answer whatever was asked.
_VARYING = re.compile("date|x-request-id|(x-)?ratelimit.*|server-timing", re.IGNORECASE)
_REQUEST_ID = re.compile(r'"request_id":"[0-9a-f]+"')
# Of an identifier: as it is, and within a URL. The last two are those of a path in a problem document, and of a query.
_SPELLINGS = (
    *(str, quote, partial(quote, safe=""), partial(quote, safe=":@")),
    *(partial(quote, safe="/:@!$&'()*+,;="), partial(quote_plus, safe=":@()")),
)
_LAST_PAGE = re.compile(r'[?&]page_number=(\d+)[^>]*>; rel="last"')


@dataclass(frozen=True)
class MatrixResponse:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    text: str

    def comparable(self, sent: str = "", instead: str = "") -> tuple[int, list[tuple[str, str]], str]:
        """Return all of it, less what always varies, and with another identifier wherever it repeats the one sent."""
        headers = sorted((name.lower(), text) for name, text in self.headers.items() if not _VARYING.fullmatch(name))
        body = _REQUEST_ID.sub("", self.text)
        for spell in _SPELLINGS if sent else ():
            headers = [(name, text.replace(spell(sent), spell(instead))) for name, text in headers]
            body = body.replace(spell(sent), spell(instead))
        return self.status, headers, body


async def send_request(world: World, asked: MatrixRequest, method: str = "GET", **headers: str) -> MatrixResponse:
    path = asked.path if asked.named is None else asked.path.split("{")[0] + quote(asked.named, safe="")
    target = URL(f"/v1{path}?{urlencode(asked.query)}", encoded=True)
    sent = {"x-api-key": world.keys[asked.key], "Accept-Encoding": "identity", **headers}
    async with world.http.request(method, target, headers=sent) as response:
        return MatrixResponse(response.status, response.headers, (await response.read()).decode())


async def send_compatible(world: World, asked: MatrixRequest) -> MatrixResponse:
    """Send a request of the matrix as a client of the compatible profile: a form, HTTP Basic, the other root."""
    path = asked.path if asked.named is None else asked.path.split("{")[0] + quote(asked.named, safe="")
    _, key_id, secret = world.keys[asked.key].split("_")
    login = b64encode(f"{key_id}:{secret}".encode()).decode()
    sent = {"Accept": "application/vnd.platform+json;version=1", "Authorization": f"Basic {login}"}
    sent |= {"Accept-Encoding": "identity"}
    target = URL(f"/api{path}", encoded=True)
    async with world.http.request("GET", target, data=asked.query or None, headers=sent) as response:
        return MatrixResponse(response.status, response.headers, (await response.read()).decode())


def violations(asked: MatrixRequest, verdict: ExpectedResponse, answer: MatrixResponse) -> list[str]:
    """Return how an answer differs from what it must be: status, records, and every count in body and headers."""
    if answer.status != verdict.status:
        return [f"status {answer.status} instead of {verdict.status}"]
    if answer.status != 200 or not answer.text:
        return [] if answer.status == 200 else _comparable(answer)
    body = orjson.loads(answer.text)
    found = [_identifier(asked, record) for record in ([body] if asked.named is not None else _records(body))]
    expected = first_page(verdict.identifiers, asked)
    wrongs = [] if found == expected else [f"records {found} instead of {expected}"]
    if asked.named is not None:
        return wrongs
    return wrongs + (_walk(body, verdict, expected) if is_walked(asked) else _counts(body, verdict, asked, answer))


def _comparable(answer: MatrixResponse) -> list[str]:
    """Judge a problem document: it repeats the path without the query, and has no other members."""
    problem = orjson.loads(answer.text or b"{}")
    instance = str(problem.get("instance", "/v1"))
    counts = [name for name in answer.headers if name.lower().startswith(("x-total", "x-page", "link", "etag"))]
    return [f"{name} on a refusal" for name in counts] + (["instance with a query"] if "?" in instance else [])


def _records(body: Any) -> list[dict[str, Any]]:
    if isinstance(body, list):
        return body
    found: list[dict[str, Any]] = next(value for value in body.values() if isinstance(value, list))
    return found


def _identifier(asked: MatrixRequest, record: dict[str, Any]) -> str:
    name = IDENTIFIERS[asked.resource]
    return str(record[name] if name in record else record["platform_listing_id"])


def _walk(body: dict[str, Any], verdict: ExpectedResponse, expected: list[str]) -> list[str]:
    final = body.get("FinalPage", body.get("final_page"))
    should = len(verdict.identifiers) == len(expected)
    return [] if final is should else [f"FinalPage {final} instead of {should}"]


def _counts(body: Any, verdict: ExpectedResponse, asked: MatrixRequest, answer: MatrixResponse) -> list[str]:
    if "page_size" not in asked.query:
        return []
    total, size = len(verdict.identifiers), int(asked.query["page_size"])
    pages = max(1, -(-total // size))
    comparable = {"X-Total-Count": total, "X-Total-Pages": pages, "X-Page-Number": 1}
    wrongs = [
        f"{name} {answer.headers[name]}" for name, number in comparable.items() if answer.headers[name] != str(number)
    ]
    last = _LAST_PAGE.search(answer.headers["Link"])
    wrongs += [] if last is not None and int(last[1]) == pages else [f"Link {answer.headers['Link']}"]
    in_body = body.get("total_pages") if isinstance(body, dict) else pages
    return wrongs + ([] if in_body == pages else [f"total_pages {in_body}"])
