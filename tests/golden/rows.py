"""Requests: of the rows of a table, in further forms, and of the OpenAPI document."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from tests.golden.requests import VALUES


@dataclass(frozen=True)
class Request:
    """One request; `raw` is sent instead if it is given. With `has_tag`, each service is sent the ETag that it gave."""

    target: str
    key: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    method: str = "GET"
    body: str = ""
    raw: str = ""
    has_tag: bool = False

    def __str__(self) -> str:
        """Return what identifies it in a report."""
        parts = [f"{self.method} {self.target[:200]}", self.key and f"@{self.key}", self.body and f"> {self.body[:40]}"]
        parts += [f"{name}: {value[:60]}" for name, value in self.headers] + ["with its ETag"] * self.has_tag
        return "  ".join(filter(None, parts))


class _Filled(dict[str, str]):
    """The values of a row; those of the data are percent-encoded for targets."""

    def __getitem__(self, name: str) -> str:
        """Return the text to write for a name."""
        return VALUES[name] if name in VALUES else quote(super().__getitem__(name), safe="/?&=:,'()@!*;")


def requests(rows: str, values: Mapping[str, str], key: str = "") -> Iterator[Request]:
    """Yield the requests of rows, with `key` unless a row names another."""
    for row in filter(None, rows.splitlines()):
        for each in _alternatives(row):
            yield _request(each.split("  "), {**VALUES, **values}, key)


def _alternatives(row: str) -> Iterator[str]:
    # The innermost brackets first.
    if not (match := re.search(r"\[([^][]*)\]", row)):
        yield row
        return
    for choice in match[1].split("|"):
        yield from _alternatives(row[: match.start()] + choice + row[match.end() :])


def _request(columns: list[str], values: Mapping[str, str], key: str) -> Request:
    method = columns.pop(0) if re.fullmatch("[A-Z]+", columns[0]) else "GET"
    target = quote(columns.pop(0).format_map(_Filled(values)), safe="/?&=%:;,@$'()!*+-._~")
    request = Request(target, key, method=method)
    for column in (each.format_map(values) for each in columns):
        if column[0] == "@":
            request = replace(request, key=column[1:])
        elif column.startswith("> "):
            request = replace(request, body=column[2:])
        else:
            name, _, value = column.partition(":")
            request = replace(request, headers=(*request.headers, (name, value.strip())))
    return request


def in_other_forms(request: Request) -> Iterator[Request]:
    """Yield a request for records as existing clients and maps send it."""
    path, _, query = request.target.partition("?")
    yield replace(request, target=request.target.replace("/v1", "/api", 1), key="compatible")
    if query:
        yield Request(path, "compatible", (("Content-Type", VALUES["form"]),), body=query)
    yield replace(request, headers=(("Accept", VALUES["profile"]),))
    if "listings" in path:
        for key in ("all", "display"):
            yield replace(request, key=key, headers=(("Accept", "application/geo+json"),))


def again(request: Request) -> Iterator[Request]:
    """Yield a request that succeeded without its body, with its ETag, and compressed."""
    yield replace(request, method="HEAD")
    yield replace(request, has_tag=True)
    for coding in ("gzip", "zstd"):
        yield replace(request, headers=(*request.headers, ("Accept-Encoding", coding)))
    yield replace(request, method="HEAD", headers=(*request.headers, ("Accept-Encoding", "zstd, gzip")))


def of_parameters(document: Mapping[str, Any], values: Mapping[str, str]) -> Iterator[Request]:
    """Yield each documented parameter with wrong values, and each documented path in other ways."""
    known = {"platform_company_id": "company", "resource": "agents", "guid": "agent", "platform_team_id": "team"}
    known |= {"platform_office_id": "office", "file": "file", "platform_listing_id": "listing"}
    for path, item in document["paths"].items():
        filled = re.sub(r"{(\w+)}", lambda name: {**VALUES, **values}.get(known[name[1]], known[name[1]]), path)
        target = filled if path.endswith("z") else f"/v1{filled}"
        for name in parameters(document, item["get"]):
            for query in (f"{name}=", f"{name}=-1", f"{name}=%00", f"{name}=a&{name}=b", f"{name}x=1"):
                yield Request(f"{target}?{query}", "all")
        yield Request(f"/{target.replace('/', '//')}/", "all")
        yield from (Request(target, "all", method=method) for method in ("OPTIONS", "POST", "DELETE", "BREW"))


def parameters(document: Mapping[str, Any], operation: Mapping[str, Any]) -> list[str]:
    """Return the names of the query parameters of an operation."""
    known = document["components"].get("parameters", {})
    listed = [known[each["$ref"].rpartition("/")[2]] if "$ref" in each else each for each in operation["parameters"]]
    return sorted({each["name"] for each in listed if each["in"] == "query"})
