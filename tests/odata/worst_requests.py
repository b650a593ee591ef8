"""The requests that cost most to answer, of each shape and entity set, within the limits of a URL and of a filter."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import NamedTuple
from urllib.parse import quote

from service.reso.entity_events import EVENT_ENTITY_SET, EVENT_PROPERTIES, FILTERABLE_PROPERTIES
from service.reso.filter.clauses import CollectionMatcher, KeywordMatcher
from service.reso.filter.parser import MAX_COMPARISONS, MAX_NESTING_DEPTH, MAX_VALUES
from service.reso.protocol import MAX_RESO_URL_BYTES
from service.reso.sets.child_sets import ChildSet
from service.reso.sets.declarations import ENTITY_SETS, navigations
from service.reso.sets.edm_types import EdmType
from service.reso.sets.static_sets import StaticSet

# With room for the path, the name of the option and the key.
_FILTER_BYTES = MAX_RESO_URL_BYTES - 200
_PATTERN = "abcdefghij" * 9 + "{:05}"
_MOST_ROWS, _MOST_SKIPPED, _MOST_ORDERS = 1_000, 10_000, 10


class WorstRequest(NamedTuple):
    """A request: its entity set and shape, its path below `/v1/reso/`, and the page size that it prefers."""

    entity_set: str
    shape: str
    path: str
    rows: int = _MOST_ROWS


class _Property(NamedTuple):
    """A property to filter by: its name, values of it as literals, and what it supports."""

    name: str
    literals: Sequence[str]
    is_ordered: bool
    is_text: bool
    is_collection: bool


def worst_requests(keys: Mapping[str, Sequence[str]]) -> Iterator[WorstRequest]:
    """Yield the requests; `keys` are some keys of each entity set, for children those of their parents."""
    for name in (EVENT_ENTITY_SET, *ENTITY_SETS):
        for declared in _representatives(name, keys):
            for shape, condition in _filters(declared):
                if isinstance(ENTITY_SETS.get(name), ChildSet | StaticSet):
                    yield WorstRequest(name, f"count, {declared.name} {shape}", f"{name}/$count?$filter={condition}")
                yield WorstRequest(name, f"page, {declared.name} {shape}", f"{name}?$filter={condition}")
        yield from _pages(name)


def _pages(name: str) -> Iterator[WorstRequest]:
    """Yield requests without a filter."""
    yield WorstRequest(name, "count", f"{name}?$count=true", 1)
    yield WorstRequest(name, "skipped rows", f"{name}?$skip={_MOST_SKIPPED}", 1)
    yield WorstRequest(name, "rows", name)
    if expanded := navigations(name):
        yield WorstRequest(name, "expanded rows", f"{name}?$expand={','.join(expanded)}")
    orders = ENTITY_SETS[name].sortable if name in ENTITY_SETS else ()
    # A key is the last that counts.
    others = [order for order in orders if order != ENTITY_SETS[name].key][:_MOST_ORDERS]
    for given in (others, [f"{order} desc" for order in others]):
        if given:
            path = f"{name}?$orderby={quote(','.join(given))}"
            yield WorstRequest(name, "ordered rows", path)
            yield WorstRequest(name, "ordered and skipped rows", f"{path}&$skip={_MOST_SKIPPED}", 1)


def _representatives(name: str, keys: Mapping[str, Sequence[str]]) -> Iterator[_Property]:
    """Yield the key, and one property for each way of comparing."""
    own = keys.get(name, ("a", "b"))
    if name == EVENT_ENTITY_SET:
        literals = {EdmType.INT64: [str(number) for number in range(1, 1_000)], EdmType.STRING: _quoted(own)}
        for each in FILTERABLE_PROPERTIES:
            edm = EVENT_PROPERTIES[each]
            values = ("'Property'",) if each == "ResourceName" else literals[edm]
            yield _Property(each, values, edm is EdmType.INT64, is_text=False, is_collection=False)
        return
    entity_set, seen = ENTITY_SETS[name], set[object]()
    for title, declared in entity_set.properties.items():
        matchers = {type(column.search.matcher) for column in declared.columns.values()}
        # Static sets have no columns, and search fields differ in what they are indexed with.
        kind = (declared.edm, frozenset(matchers), title == entity_set.key, title == "ListingId")
        if kind in seen or (declared.columns and not declared.is_filterable):
            continue
        seen.add(kind)
        literals_of: Sequence[str]
        if declared.lookup:
            literals_of = [f"'{value}'" for value in declared.lookup]
        elif isinstance(entity_set, ChildSet) and title == entity_set.key:
            literals_of = _quoted([f"{parent}!{number}" for number in range(40) for parent in own])
        elif declared.edm is EdmType.STRING or declared.edm.is_collection:
            literals_of = _quoted(own)
        else:
            literals_of = _LITERALS[declared.edm]
        is_text = KeywordMatcher in matchers or not declared.columns
        is_ordered = declared.edm not in {EdmType.BOOLEAN, EdmType.STRING} or title == entity_set.key
        yield _Property(title, literals_of, is_ordered, is_text, CollectionMatcher in matchers)


_LITERALS: Mapping[str, Sequence[str]] = {
    EdmType.DATE_TIME: [f"2026-01-01T00:00:00.{number:03}Z" for number in range(MAX_VALUES)],
    EdmType.DATE: [
        f"20{year}-{month:02}-{day:02}" for year in (24, 25) for month in range(1, 13) for day in range(1, 25)
    ],
    EdmType.INT64: [str(number) for number in range(MAX_VALUES)],
    EdmType.DECIMAL: [f"{number}000.5" for number in range(MAX_VALUES)],
    EdmType.BOOLEAN: ["true", "false"],
}


def _quoted(texts: Sequence[str]) -> list[str]:
    return [f"'{text}'" for text in texts]


def _filters(declared: _Property) -> Iterator[tuple[str, str]]:
    """Yield shapes and encoded filters."""
    name, literals = declared.name, declared.literals
    if declared.is_collection:
        inner, each = MAX_COMPARISONS - 1, MAX_COMPARISONS // 2  # any and all count as comparisons
        for quantifier in ("any", "all"):
            yield (
                f"{quantifier} of comparisons",
                f"{name}/{quantifier}(x:{_joined(' and ', 'x ne {}', literals, 20, inner)})",
            )
            yield f"{quantifier} of not a list", f"{name}/{quantifier}(x:not%20(x%20in%20({_listed(literals, 40)})))"
        yield "any by and", _joined(" and ", f"{name}/any(x:x ne {{}})", literals, count=each)
        yield "any by or", _joined(" or ", f"{name}/any(x:x ne {{}})", literals, count=each)
        return
    yield "in", quote(f"{name} in (") + _listed(literals, 60) + ")"
    yield "ne", _joined(" and ", f"{name} ne {{}}", literals)
    yield "eq", _joined(" or ", f"{name} eq {{}}", literals)
    yield "not in", _joined(" and ", f"not ({name} in ({{}},{{}},{{}}))", literals)
    yield "levels", _levels(name, literals)
    if declared.is_ordered:
        yield "gt by or", _joined(" or ", f"{name} gt {{}}", literals)
        yield "ge by and", _joined(" and ", f"{name} ge {{}}", literals)
        yield (
            "ranges by or",
            _joined(" or ", f"({name} ge {{}} and {name} le {{}})", literals, count=MAX_COMPARISONS // 2),
        )
    if declared.is_text:
        patterns = [f"'{_PATTERN.format(number)}'" for number in range(MAX_COMPARISONS)]
        for test in ("contains", "startswith", "endswith"):
            for function in ("", "tolower"):
                operand = f"{function}({name})" if function else name
                for word in (" or ", " and "):
                    shape = f"{function} {test} by {word}".replace("  ", " ").strip()
                    yield shape, _joined(word, f"{test}({operand},{{}})", patterns)
        yield "short contains", _joined(" or ", f"contains({name},{{}})", [f"'{number:x}'" for number in range(60)])
        yield "tolower eq", _joined(" or ", f"tolower({name}) eq {{}}", patterns)
        yield "tolower ne", _joined(" and ", f"tolower({name}) ne {{}}", patterns)


def _joined(word: str, template: str, literals: Sequence[str], room: int = 0, count: int = MAX_COMPARISONS) -> str:
    """Return as many conditions as fit, encoded."""
    values, parts, length = cycle(literals), list[str](), room
    for _ in range(count):
        part = quote(template.format(*islice(values, template.count("{}"))), safe="(),:/'!$")
        length += len(part) + len(quote(word))
        if length > _FILTER_BYTES:
            break
        parts.append(part)
    return quote(word).join(parts)


def _listed(literals: Sequence[str], room: int) -> str:
    """Return as many values as fit, encoded."""
    parts, length = list[str](), room
    for literal in islice(cycle(literals), MAX_VALUES):
        part = quote(literal, safe="'!:")
        length += len(part) + 1
        if length > _FILTER_BYTES:
            break
        parts.append(part)
    return ",".join(parts)


def _levels(name: str, literals: Sequence[str]) -> str:
    """Return comparisons in as many levels of parentheses as a filter may have, by and, by or, and negated."""
    words: Sequence[Callable[[str, str], str]] = (
        lambda one, rest: f"({one} and {rest})",
        lambda one, rest: f"({one} or {rest})",
        lambda one, rest: f"not ({one} and {rest})",
    )
    values = cycle(literals)
    level = f"{name} ne {next(values)}"
    for number in range(MAX_NESTING_DEPTH):
        width = " or ".join(f"{name} eq {next(values)}" for _ in range(MAX_COMPARISONS // MAX_NESTING_DEPTH - 1))
        level = words[number % len(words)](f"({width})" if number else width, level)
    return quote(level[:_FILTER_BYTES], safe="(),:/'!$")
