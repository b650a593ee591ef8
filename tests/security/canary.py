"""One key, and every way in which a client can send it: rightly, wrongly, and where no key belongs."""

import base64
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

from service.http.responses import API_KEY_HEADER, API_KEY_PARAMETER
from service.parameters import PropertyTypes
from service.resources import OPERATIONS

_PATIENCE_SECONDS = 3
_SHOWN = 12  # characters of the secret at either end
_FEED = "/v1/listings?platform_company_id=4101"
_METHODS = ("POST", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS", "HEAD", "CONNECT", "PROPFIND", "api-key")
# Headers that HTTP, proxies or frameworks read, and some that none does.
_HEADERS = (
    "Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Encoding", "Content-Length", "Content-Type",
    "Cookie", "Expect", "Forwarded", "Host", "If-Match", "If-Modified-Since", "If-None-Match", "Keep-Alive", "Origin",
    "Proxy-Authorization", "Range", "Referer", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Via",
    "X-Api-Key-2", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "X-Request-Id", "traceparent", "tracestate",
)  # fmt: skip


@dataclass(frozen=True)
class KeyInjection:
    """The bytes to send; `is_left` says that the client leaves without waiting for the answer."""

    name: str
    sent: bytes
    is_left: bool = False


class CanaryKey:
    """A key that must appear nowhere."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.secret = key.rpartition("_")[2]

    def found_in(self, text: str) -> list[str]:
        """Return what of the key is in a text: whole, its secret, or a dozen characters of either end of that."""
        random = self.secret[:-6]
        parts = {self.key, self.secret, random, random[:_SHOWN], random[-_SHOWN:], self.secret[-_SHOWN:]}
        parts |= {base64.b64encode(self.key.encode()).decode().rstrip("=")[:-2], self.key.encode().hex()}
        # Without the ends, which depend on what surrounds the key.
        parts |= {_basic(user, password)[8:-4] for user, password in self._credentials()}
        # Escaped, once or twice, it is just as readable.
        unescaped = unquote(text)
        haystack = "\n".join((text, unescaped, unquote(unescaped))).lower()
        return [part for part in parts if part.lower() in haystack]

    def _credentials(self) -> Iterator[tuple[str, str]]:
        """Yield user names and passwords that hold the key."""
        yield from (("", self.key), ("user", self.key), (self.key[3:13], self.secret), (self.key, "x"))

    def injections(self) -> Iterator[KeyInjection]:
        """Yield every way of sending it."""
        yield from self._as_key()
        yield from self._as_basic()
        yield from self._as_parameter()
        yield from self._in_path()
        yield from self._in_header()
        yield from self._by_method()
        yield from self._too_long()
        yield from self._malformed()
        yield from self._left()

    def _as_key(self) -> Iterator[KeyInjection]:
        key, escaped = self.key, _escaped(self.key)
        yield get("header", _FEED, f"{API_KEY_HEADER}: {key}")
        yield get("header in capitals", _FEED, f"X-API-KEY: {key}")
        yield get("header twice", _FEED, f"{API_KEY_HEADER}: {key}", f"{API_KEY_HEADER}: {key}")
        yield get("header with more behind it", _FEED, f"{API_KEY_HEADER}: {key}, {key}")
        yield get("header with a typo", _FEED, f"{API_KEY_HEADER}: {key[:-1]}")
        yield get("header in quotes", _FEED, f'{API_KEY_HEADER}: "{key}"')
        yield get("header and another query", f"{_FEED}&{API_KEY_PARAMETER}=bk_x", f"{API_KEY_HEADER}: {key}")
        yield get("header and query", f"{_FEED}&{API_KEY_PARAMETER}={key}", f"{API_KEY_HEADER}: {key}")
        for name, spelt in {"plain": key, "escaped": escaped, "half escaped": key.replace("_", "%5F")}.items():
            for spelt_name in (
                API_KEY_PARAMETER,
                "api%2Dkey",
                "API-KEY",
                "Api-Key",
                "x-api-key",
                "apikey",
                "api_key",
                "key",
            ):
                yield get(f"query {spelt_name} {name}", f"{_FEED}&{spelt_name}={spelt}")
        yield get("query twice", f"{_FEED}&{API_KEY_PARAMETER}={key}&{API_KEY_PARAMETER}={key}")
        yield get("query twice and different", f"{_FEED}&{API_KEY_PARAMETER}=x&{API_KEY_PARAMETER}={key}")
        yield get("query with a typo", f"{_FEED}&{API_KEY_PARAMETER}={key[:-1]}")
        yield get("query with space", f"{_FEED}&{API_KEY_PARAMETER}=%20{key}+")
        yield get("query with a fault", f"{_FEED}&{API_KEY_PARAMETER}={key}&page_size=0&q=1")
        yield get("query behind a semicolon", f"{_FEED};{API_KEY_PARAMETER}={key}")
        yield get("query as a name", f"{_FEED}&{key}=1", f"{API_KEY_HEADER}: {key}")
        yield get("query as a name alone", f"/v1/listings?{key}", f"{API_KEY_HEADER}: {key}")
        yield get("fragment", f"{_FEED}#{key}")
        yield get("of a walk", f"/v1/sold_listings?updated_since=1&page_size=1&{API_KEY_PARAMETER}={key}")
        yield get("of a link", f"/v1/reso/Property?$top=3&{API_KEY_PARAMETER}={key}", "Prefer: maxpagesize=1")
        yield get("of a page", f"/v1/agents?updated_since=1&page_size=1&page_number=2&{API_KEY_PARAMETER}={key}")

    def _as_basic(self) -> Iterator[KeyInjection]:
        accept = "Accept: application/vnd.platform+json;version=1"
        form = "Content-Type: application/x-www-form-urlencoded"
        for user, password in self._credentials():
            pair = _basic(user, password)
            for target in (
                *("/api/agents?wrong=1", "/api/agents/unknown", f"{_FEED}&page_size=0", "/nothing"),
                *("/v1/reso/Teams", "/v1/reso/Teams?wrong=1"),
            ):
                for more in ([], [accept]):
                    yield get(f"basic {target} {more}", target, f"Authorization: Basic {pair}", *more)
            for body in (f"page_size={self.key}&{self.key}=1", f"a=%zz{self.key}", self.key, f"{self.key} x"):
                way = get("basic form", "/api/agents", f"Authorization: Basic {pair}", accept, form,
                          f"Content-Length: {len(body)}")  # fmt: skip
                yield KeyInjection(way.name, way.sent + body.encode())

    def _as_parameter(self) -> Iterator[KeyInjection]:
        for operation in OPERATIONS:
            path = "/v1" + re.sub("{.*}", "unknown", operation.path)
            for name, field in operation.schema.fields.items():
                for value in (self.key, f"4101:{self.key}", *([f"1,{self.key}"] * isinstance(field, PropertyTypes))):
                    company = {"platform_company_id": "4101"} if operation.path == "/listings" else {}
                    query = "&".join(f"{name}={text}" for name, text in {**company, name: value}.items())
                    yield get(f"{operation.path} {name}", f"{path}?{query}", f"{API_KEY_HEADER}: {self.key}")

    def _in_path(self) -> Iterator[KeyInjection]:
        for spelt in (self.key, _escaped(self.key), f"4101:{self.key}", f"{self.key}.json", f"..%2F{self.key}"):
            for operation in OPERATIONS:
                if "{" in operation.path:
                    path = "/v1" + re.sub("{.*}", spelt, operation.path)
                    yield get(f"path {path}", path, f"{API_KEY_HEADER}: {self.key}")
        for path in (
            f"/{self.key}",
            f"/v1/{self.key}",
            f"/v1/listings/L1/{self.key}",
            f"/v1/listings/?{API_KEY_PARAMETER}={self.key}",
        ):
            yield get(f"path {path}", path)
        query = f"?{API_KEY_PARAMETER}={self.key}"
        others = (
            "/",
            "/v1",
            "/v2/listings",
            "//v1//companies//",
            "/v1/companies/",
            "/nothing",
            "/docs",
            "/favicon.ico",
        )
        probes = ("/livez", "/readyz", "/startupz", "/metrics", "/openapi.json", "/v1/openapi.json")
        for path in (*others, *probes, f"/readyz/{self.key}", f"/metrics/{self.key}"):
            yield get(f"path {path}", path + query)
        yield get("verbose", f"/readyz?verbose&{API_KEY_PARAMETER}={self.key}")
        yield get("verbose value", f"/readyz?verbose={self.key}")

    def _in_header(self) -> Iterator[KeyInjection]:
        for name in _HEADERS:
            for target, more in ((_FEED, [f"{API_KEY_HEADER}: {self.key}"]), ("/livez", []), ("/nothing", [])):
                yield get(f"header {name} {target}", target, f"{name}: {self.key}", *more)
        pair = base64.b64encode(f"user:{self.key}".encode()).decode()
        for value in (f"Bearer {self.key}", f"ApiKey {self.key}", f"Basic {pair}"):
            yield get(f"Authorization {value[:6]}", _FEED, f"Authorization: {value}")
        for value in (f"{API_KEY_PARAMETER}={self.key}", f"{self.key}=1", f"a=1; {self.key}", f'"{self.key}'):
            yield get("Cookie", _FEED, f"Cookie: {value}", f"{API_KEY_HEADER}: {self.key}")
        yield get("Referer", _FEED, f"Referer: https://partner.example.com{_FEED}&{API_KEY_PARAMETER}={self.key}")
        yield get("the name of a header", _FEED, f"{self.key}: 1")

    def _by_method(self) -> Iterator[KeyInjection]:
        for method in _METHODS:
            for target in (
                f"{_FEED}&{API_KEY_PARAMETER}={self.key}",
                f"/livez?{API_KEY_PARAMETER}={self.key}",
                f"/nothing/{self.key}",
                "*",
            ):
                yield get(f"{method} {target}", target, f"{API_KEY_HEADER}: {self.key}", method=method)
        body = f'{{"{API_KEY_PARAMETER}": "{self.key}"}}'
        for method in ("GET", "POST"):
            for kind in ("application/json", "multipart/form-data; boundary=x"):
                way = get(f"body {method} {kind}", _FEED, f"Content-Type: {kind}", f"Content-Length: {len(body)}",
                           f"{API_KEY_HEADER}: {self.key}", method=method)  # fmt: skip
                yield KeyInjection(way.name, way.sent + body.encode())

    def _too_long(self) -> Iterator[KeyInjection]:
        for length in (8_200, 20_000, 70_000, 200_000):
            yield get(
                f"a line of {length} bytes, the key first",
                f"/v1/listings?{API_KEY_PARAMETER}={self.key}&q={'x' * length}",
            )
            yield get(
                f"a line of {length} bytes, the key last",
                f"/v1/listings?q={'x' * length}&{API_KEY_PARAMETER}={self.key}",
            )
            yield get(f"a header of {length} bytes", _FEED, f"{API_KEY_HEADER}: {self.key}{'x' * length}")
        yield get("2,000 headers", _FEED, *(f"X-{number}: {self.key}" for number in range(2_000)))
        yield get("2,000 parameters", _FEED + f"&a={self.key}" * 130, f"{API_KEY_HEADER}: {self.key}")

    def _malformed(self) -> Iterator[KeyInjection]:
        target, host = f"{_FEED}&{API_KEY_PARAMETER}={self.key}", "\r\nHost: x\r\nConnection: close\r\n"
        heads = {
            "no version": f"GET {target}{host}",
            "version 9.9": f"GET {target} HTTP/9.9{host}",
            "version of nothing": f"GET {target} {self.key}{host}",
            "spaces in the line": f"GET {_FEED} {self.key} HTTP/1.1{host}",
            "nothing but the key": f"{self.key}{host}",
            "key for a method": f"{self.key} / HTTP/1.1{host}",
            "NUL in the line": f"GET {target}\0 HTTP/1.1{host}",
            "tab in the line": f"GET\t{target}\tHTTP/1.1{host}",
            "bytes above ASCII in the line": f"GET {target}ü HTTP/1.1{host}",
            "wrong escape": f"GET {target}%zz%ff HTTP/1.1{host}",
            "authority": f"GET http://user:{self.key}@x{_FEED} HTTP/1.1{host}",
            "authority alone": f"CONNECT {self.key}:443 HTTP/1.1{host}",
            "wrong port": f"GET http://x:{self.key}/ HTTP/1.1{host}",
            "wrong host": f"GET http://[{self.key}/v1 HTTP/1.1{host}",
            "header without a colon": f"GET {_FEED} HTTP/1.1{host}{API_KEY_HEADER} {self.key}\r\n",
            "space before the colon": f"GET {_FEED} HTTP/1.1{host}{API_KEY_HEADER} : {self.key}\r\n",
            "folded header": f"GET {_FEED} HTTP/1.1{host}{API_KEY_HEADER}:\r\n {self.key}\r\n",
            "NUL in a header": f"GET {_FEED} HTTP/1.1{host}{API_KEY_HEADER}: {self.key}\0\r\n",
            "CR in a header": f"GET {_FEED} HTTP/1.1{host}{API_KEY_HEADER}: {self.key}\rx\r\n",
            "key for a header's name": f"GET {_FEED} HTTP/1.1{host}{self.key} x: 1\r\n",
            "two lengths": f"GET {target} HTTP/1.1{host}Content-Length: 1\r\nContent-Length: {self.key}\r\n",
            "length and chunks": f"POST {target} HTTP/1.1{host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "no host": f"GET {target} HTTP/1.1\r\nConnection: close\r\n",
            "two hosts": f"GET {target} HTTP/1.1{host}Host: {self.key}\r\n",
            "version 1.0": f"GET {target} HTTP/1.0\r\n",
            "HTTP/2": f"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{self.key}",
        }
        for name, head in heads.items():
            yield KeyInjection(name, f"{head}\r\n".encode())
        chunked = f"POST {target} HTTP/1.1{host}Transfer-Encoding: chunked\r\n\r\n{self.key}\r\nx\r\n0\r\n\r\n"
        yield KeyInjection("wrong chunk", chunked.encode())
        yield KeyInjection("no HTTP", b"\x16\x03\x01" + self.key.encode() + b"\r\n\r\n")

    def _left(self) -> Iterator[KeyInjection]:
        whole = get("left", f"{_FEED}&updated_since=1&{API_KEY_PARAMETER}={self.key}").sent
        yield KeyInjection("left at once", whole, is_left=True)
        yield KeyInjection("left within the headers", whole[:-2], is_left=True)
        yield KeyInjection("left within the line", whole.partition(b" HTTP")[0], is_left=True)
        begun = get("", _FEED, "Content-Length: 99", method="POST").sent + self.key.encode()
        yield KeyInjection("left within the body", begun, is_left=True)


def get(name: str, target: str, *headers: str, method: str = "GET") -> KeyInjection:
    """Return the way of a well-formed request."""
    lines = (f"{method} {target} HTTP/1.1", "Host: x", "Connection: close", *headers, "", "")
    return KeyInjection(name, "\r\n".join(lines).encode())


def _basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _escaped(text: str) -> str:
    return "".join(f"%{ord(character):02X}" for character in text)


def exchange(port: int, way: KeyInjection, patience_seconds: float = _PATIENCE_SECONDS) -> str:
    """Send the bytes of a way and return all that comes back, until nothing has come for so long."""
    received = b""
    # It may be closed before all of a long line is sent, and for some the service waits for more.
    with (
        socket.create_connection(("127.0.0.1", port), patience_seconds) as connection,
        suppress(ConnectionError, TimeoutError),
    ):
        connection.sendall(way.sent)
        while not way.is_left and (read := connection.recv(65_536)):
            received += read
    return received.decode(errors="replace")
