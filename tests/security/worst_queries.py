"""Queries, option values and paths that cost most to parse, by parser: families that fill a URL."""

from collections.abc import Callable

from service.reso.filter.parser import MAX_COMPARISONS, MAX_VALUES

# Below the limits of a URL, with room for its path.
URL_SIZE, RESO_URL_SIZE = 8_000, 16_200


def repeat(text: str, size: int) -> str:
    return (text * (size // len(text) + 1))[:size]


def numbered(template: str, size: int, separator: str = "&") -> str:
    """Return as many different texts as fit."""
    parts: list[str] = []
    length = 0
    for number in range(size):
        part = template.replace("#", format(number, "x"))
        length += len(part) + len(separator)
        if length > size:
            break
        parts.append(part)
    return separator.join(parts)


def worst_queries(size: int = URL_SIZE) -> dict[str, str]:
    return {
        "unknown names": numbered("min_list_pric#=1", size),
        "short names": numbered("#", size),
        "names without values": numbered("a#=", size),
        "the same name": repeat("a=1&", size),
        "a known name": repeat("page_size=1&", size),
        "one long name": repeat("min_list_price", size),
        "names of 100 characters": numbered("list_price_" * 9 + "#=1", size),
        "separators": "&" * size,
        "broken escapes": numbered("%#=%", size),
        "broken escapes alone": repeat("%&", size),
        "escaped names": numbered("%c3%a9#=%c3%a9", size),
        "one long value": "zip_code=" + repeat("%41", size - 9),
        "commas": "property_types=" + "," * (size - 15),
        "numbers": "min_list_price=" + "9" * (size - 15),
        "plus": "zip_code=" + "+" * (size - 9),
        "percent of controls": numbered("%01#=%00", size),
        "names of keys": numbered("bk_0123456789_#", size),
        "quotes": numbered("%22%5C#", size),
    }


def feed_queries() -> dict[str, str]:
    size = 1_900
    return {
        "tokens of one letter": "changes?since=" + repeat("a,", size),
        "one token": "changes?since=" + "A" * size,
        "many small tokens": "changes?since=" + repeat("lQHEAMAAgA,", size),
        "tokens of nested arrays": "changes?since=" + repeat("kZGR", size),
        "many names": "changes?resources=" + repeat("listings,", URL_SIZE - 40),
        "prefixes": "digest/listings?prefixes=" + repeat("00,", URL_SIZE - 40),
        "long tokens": "changes?since=" + "A" * (URL_SIZE - 40),
    }


def _filters() -> dict[str, str]:
    size = RESO_URL_SIZE - 60
    return {
        "comparisons": repeat("A%20eq%201%20or%20", size),
        "equal lookups": _and("PropertyType%20eq%20'Residential'", size),
        "ne lookups": _and("StandardStatus%20ne%20'Active'", size),
        "lookups by or": _and("StandardStatus%20eq%20'Active'", size).replace("and", "or"),
        "texts by or": _and("ListingId%20eq%20'a'", size).replace("and", "or"),
        "one list of numbers": _list("CloseDate", "2026-01-01", size),
        "one list of texts": _list("ListingId", "'a'", size),
        "one list of lookups": _list("StandardStatus", "'Active'", size),
        "one list of timestamps": _list("ModificationTimestamp", "2026-01-01T00:00:00Z", size),
        "timestamps": _and("ModificationTimestamp%20gt%202026-01-01T00:00:00Z", size),
        "prices": _and("CloseDate%20gt%202026-01-01", size),
        "not in": _and("not%20(ListingId%20in%20('a','b'))", size),
        "parentheses": "(" * size,
        "closed parentheses": "(" * (size // 2) + ")" * (size // 2),
        "keys": _list("ListingKey", "'a'", size),
        "number of events": "EntityEventSequence%20gt%20" + "9" * (size - 40),
        "events": _and("EntityEventSequence%20gt%201", size),
        "different events": _different("EntityEventSequence%20gt%20{}", size),
        "different timestamps": _different("ModificationTimestamp%20gt%202026-01-01T00:00:00.{:03}Z", size),
        "different exponents": _different_values("EntityEventSequence%20in%20({})", "9E{}"),
        "event keys": _list("ResourceRecordKey", "'a'", size),
        "not not": repeat("not%20", size),
        "quotes": "'" * size,
        "odd quotes": "ListingId%20eq%20" + "'" * (size - 20 + size % 2 + 1),
        "spaces": "+" * size,
        "one word": "a" * size,
        "dotted words": repeat("a.", size),
        "one number": "EntityEventSequence%20eq%20" + "9" * (size - 20),
        "large exponents": _list("EntityEventSequence", "9E999", size),
        "functions": repeat("contains(", size),
        "durations": repeat("duration'", size),
        "slashes": repeat("A/", size),
        "aliases": "@" * size,
        "unicode": repeat("%F0%9F%8F%A0", size),
        "unicode in a text": "ListingId%20eq%20'" + repeat("%F0%9F%8F%A0", size - 20 - (size - 20) % 12) + "'",
        "dates": repeat("2026-01-01T", size),
        "deep and wide": "(" * 9 + _and("ListingId%20eq%20'a'", size - 20) + ")" * 9,
        "ors of ands": repeat("(ListingId%20eq%20'a'%20and%20ListingId%20ne%20'b')%20or%20", size - 60)
        + "ListingId eq 'a'",
    }


def _and(comparison: str, size: int) -> str:
    number = min(MAX_COMPARISONS, size // (len(comparison) + 9))
    return "%20and%20".join([comparison] * number)


def _different(comparison: str, size: int) -> str:
    number = min(MAX_COMPARISONS, size // (len(comparison) + 9))
    return "%20and%20".join(comparison.format(at) for at in range(number))


def _different_values(template: str, value: str) -> str:
    return template.format(",".join(value.format(number + 1) for number in range(MAX_VALUES)))


def _list(field: str, value: str, size: int) -> str:
    number = min(MAX_VALUES, (size - 60) // (len(value) + 1))
    return f"{field}%20in%20({','.join([value] * number)})"


def _names() -> dict[str, str]:
    size = RESO_URL_SIZE - 60
    return {
        "commas": "," * size,
        "short names": numbered("a#", size, ","),
        "the key": repeat("ListingKey,", size // 11 * 11 - 1),
        "the last property": repeat("YearBuilt,", size // 10 * 10 - 1),
        "one long name": "a" * size,
        "parentheses": "(" * size,
        "spaces": repeat("a+", size),
        "unicode": repeat("%F0%9F%8F%A0,", size),
    }


def _orders() -> dict[str, str]:
    size = RESO_URL_SIZE - 60
    return _names() | {
        "descending": numbered("a#%20desc", size, ","),
        "the same order": repeat("ListingKey%20desc,", size // 18 * 18 - 1),
        "operators": repeat("a%20ad", size),
    }


def _tokens() -> dict[str, str]:
    size = 1_990
    return {
        "one letter": "A" * size,
        "nested arrays": repeat("kZGR", size),
        "too long": "A" * (RESO_URL_SIZE - 60),
        "dashes": "-" * size,
    }


def _numbers() -> dict[str, str]:
    size = RESO_URL_SIZE - 60
    return {"digits": "9" * size, "escapes": repeat("%39", size), "signs": "-" * size}


WORST_OPTIONS: dict[str, Callable[[], dict[str, str]]] = {
    "$filter": _filters,
    "$select": _names,
    "$orderby": _orders,
    "$expand": _names,
    "$skiptoken": _tokens,
    "$top": _numbers,
    "$count": _numbers,
    "$format": _names,
}


def worst_paths() -> dict[str, str]:
    size = URL_SIZE
    return {
        "slashes": "/" * size,
        "segments": repeat("/a", size),
        "segments below listings": "/v1/listings" + repeat("/a", size),
        "doubled slashes": "/v1/listings" + repeat("//a", size),
        "segments beyond the limit": repeat("/a", 65_000),
        "slashes beyond the limit": "/" * 65_000,
        "a query beyond the limit": "/v1/listings?" + numbered("#", 64_000),
        "a query of escapes beyond the limit": "/v1/listings?" + repeat("%c3%a9=%c3%a9&", 64_000),
        "escapes": "/v1/listings/" + repeat("%41", size),
        "escaped slashes": "/v1/listings/" + repeat("%2f", size),
        "dots": repeat("/..", size),
        "dots beyond the limit": repeat("/a/..", 65_000),
        "a long identifier": "/v1/listings/" + "a" * size,
        "keys of reso": "/v1/reso/Property('" + "'" * size + "')",
        "keys of events": "/v1/reso/EntityEvent(" + "9" * size + ")",
        "reso segments": "/v1/reso" + repeat("/a", size * 2),
        "unicode": "/" + repeat("%F0%9F%8F%A0/", size),
    }
