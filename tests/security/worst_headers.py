"""Header values that cost most to parse, by header: each fits into one header field."""

from collections.abc import Callable

from tests.security.worst_queries import numbered, repeat

_HEADER_SIZE = 8_100


def _codings() -> dict[str, str]:
    size = _HEADER_SIZE
    return {
        "commas": "," * size,
        "names": repeat("a,", size),
        "weights": repeat("gzip;q=0.5,", size),
        "many names": numbered("a#;q=0.1", size, ","),
        "spaces": "gzip" + " " * (size - 10) + ";q=1",
        "tabs before q": repeat("a\t;\t", size),
        "quotes": repeat('a;q="', size),
        "one name": "a" * size,
    }


def _media() -> dict[str, str]:
    size = _HEADER_SIZE
    return {
        "commas": "," * size,
        "ranges": repeat("a/b,", size),
        "parameters": "a/b" + repeat(";a=b", size),
        "unclosed quotes": 'a/b;a="' + repeat("\\a", size - 10),
        "quoted": "a/b" + repeat(';a=""', size),
        "weights": repeat("a/b;q=0.5,", size),
        "spaces": "a/b" + " " * (size - 10) + ";",
        "spaces around": "a/b" + repeat(" ;", size),
        "q without a number": "a/b" + repeat(";q=", size),
    }


def _tags() -> dict[str, str]:
    size = _HEADER_SIZE
    return {"commas": "," * size, "tags": repeat('"a",', size), "star": "*" * size, "half a tag": '"' * size}


def _addresses() -> dict[str, str]:
    size = _HEADER_SIZE
    return {
        "commas": "," * size,
        "loopback": repeat("127.0.0.1,", size // 10 * 10 - 1),
        "IPv6": repeat("::1,", size // 4 * 4 - 1),
        "mapped": repeat("::ffff:7f00:1,", size // 14 * 14 - 1),
        "digits": "1" * size,
        "colons": ":" * size,
        "zones": "::1%" + "a" * (size - 10),
    }


def _credentials() -> dict[str, str]:
    size = _HEADER_SIZE
    return {
        "spaces": "Bearer" + " " * (size - 20) + "!",
        "one token": "Bearer " + "a" * (size - 20),
        "a key": "Bearer bk_0123456789_" + "a" * (size - 40),
    }


def _cookies() -> dict[str, str]:
    size = _HEADER_SIZE
    return {"pairs": repeat("a=b; ", size), "quotes": 'a="' + repeat("\\", size - 10), "equals": "=" * size}


def _preferences() -> dict[str, str]:
    size = _HEADER_SIZE
    return {
        "repeated": repeat("maxpagesize", size),
        "spaces": repeat("maxpagesize ", size),
        "one gap": "maxpagesize" + " " * (size - 20),
        "odata": repeat("odata.", size),
    }


def _hosts() -> dict[str, str]:
    return {"long": "a" * _HEADER_SIZE, "colons": ":" * _HEADER_SIZE}


WORST_HEADERS: dict[str, Callable[[], dict[str, str]]] = {
    "Accept-Encoding": _codings,
    "Accept": _media,
    "If-None-Match": _tags,
    "X-Forwarded-For": _addresses,
    "Forwarded": _addresses,
    "X-Forwarded-Host": _hosts,
    "Authorization": _credentials,
    "Cookie": _cookies,
    "Prefer": _preferences,
    "Origin": _hosts,
    "traceparent": _tags,
    "tracestate": _codings,
    "baggage": _codings,
    "Range": _tags,
    "Expect": _tags,
    "Connection": _codings,
    "Content-Type": _media,
}
