"""What a dialect refuses in a query, and the fields and children that a query may name in it."""

import re
from collections.abc import Iterator, Mapping

from tests.reso.query.filter_grammar import FieldComparison, InList, Negation, Node, Or
from tests.reso.server.dialect import Dialect
from tests.reso.server.error_responses import bad_option

SYSTEM_FIELD = "OriginatingSystemName"
_EXPANSION = re.compile(r"(?P<child>\w+)(?P<options>\(.*\))?", re.DOTALL)


def check_filter(resource: str, where: Node | None, dialect: Dialect) -> None:
    """Raise ODataError for a filter that lacks the system, or that the dialect does not search by."""
    comparisons = list(_comparisons(where))
    systems = [each for each in comparisons if _is_system(each)]
    if dialect.system and (len(systems) != 1 or not _is_required(where)):
        raise bad_option("$filter", f"a single {SYSTEM_FIELD} must be specified")
    allowed = dialect.searchable.get(resource)
    for each in comparisons:
        if allowed is not None and each.field not in allowed:
            raise bad_option("$filter", f"{each.field} is not a searchable field of {resource}")
    if dialect.most_or is not None and _count_or(where) > dialect.most_or:
        raise bad_option("$filter", f"more than {dialect.most_or} 'or' operators")


def _is_system(each: FieldComparison | InList) -> bool:
    return isinstance(each, FieldComparison) and each.field == SYSTEM_FIELD and each.operator == "eq"


def _is_required(where: Node | None) -> bool:
    """Return whether the system is compared at the top of a filter, not in one side of an `or`."""
    if isinstance(where, FieldComparison):
        return _is_system(where)
    if where is None or isinstance(where, InList | Negation | Or):
        return False
    return any(_is_required(node) for node in where.nodes)


def _comparisons(where: Node | None) -> Iterator[FieldComparison | InList]:
    if isinstance(where, FieldComparison | InList):
        yield where
    elif isinstance(where, Negation):
        yield from _comparisons(where.node)
    elif where is not None:
        for node in where.nodes:
            yield from _comparisons(node)


def _count_or(where: Node | None) -> int:
    if where is None or isinstance(where, FieldComparison | InList):
        return 0
    if isinstance(where, Negation):
        return _count_or(where.node)
    return (len(where.nodes) - 1 if isinstance(where, Or) else 0) + sum(_count_or(node) for node in where.nodes)


def check_top(top: int | None, most: int, dialect: Dialect) -> None:
    """Raise ODataError for a `$top` above the largest page."""
    if dialect.refuses_large_top and top is not None and top > most:
        raise bad_option("$top", f"must not be more than {most}")


def expansion(resource: str, text: str, dialect: Dialect) -> Mapping[str, tuple[str, ...] | None]:
    """Return the children of an `$expand`, each with the fields to send of it, None for all."""
    found: dict[str, tuple[str, ...] | None] = {}
    for part in re.split(r",(?![^()]*\))", text):
        named = _EXPANSION.fullmatch(part.strip())
        if named is None or named["child"] not in dialect.expanded.get(resource, ()):
            raise bad_option("$expand", f"{resource} has no {part}")
        if named["options"] and not dialect.expands_with_options:
            raise bad_option("$expand", "no options are supported in it")
        found[named["child"]] = _fields(named["options"] or "")
    return found


def _fields(options: str) -> tuple[str, ...] | None:
    named = re.search(r"\$select=([\w,]+)", options)
    return tuple(named[1].split(",")) if named else None
