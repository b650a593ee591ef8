"""Filters of children: what they say of parents, and what of each child.

A comparison with a child's key holds for all children of a parent or for none, except for the parent that the key
names. So the parents are selected by their own keys, which the index answers, and only the children of those named in
the filter are compared. Comparisons with a day or a start divide children by their tokens (`child_tokens`): for the
tokens between two bounds they are true or false, and what is left of the filter is a condition on parents.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from operator import attrgetter, or_
from typing import Any, NamedTuple, TypeVar

from mappings.data_dictionary import MODIFICATION_TIMESTAMP
from mappings.listing import TOKENS
from service.errors import InvalidRequest
from service.reso.filter.clauses import Matcher, UnsupportedComparison, refused
from service.reso.filter.expression import (
    And,
    ComparisonOperator,
    ElementSet,
    FieldComparison,
    FieldCondition,
    FilterExpression,
    FilterLiteral,
    InList,
    Leaf,
    LiteralType,
    Negation,
    Or,
    Predicate,
    compared_literals,
    compile_comparison,
    compile_filter,
    conditions,
    fold,
)
from service.reso.filter.value_matchers import TimestampMatcher
from service.reso.protocol import FILTER, OptionNotImplemented
from service.reso.sets.child_sets import Child, ChildKey, ChildSet
from service.reso.sets.token_set import EVERY, NONE, TokenSet
from service.search.query import Clause, spellings

# For the parent of a key: its children may be on either side of the key.
_OF_PARENT = {ComparisonOperator.GT: ComparisonOperator.GE, ComparisonOperator.LT: ComparisonOperator.LE}
NULL = FilterLiteral(LiteralType.NULL, "null")
_ALL, _NOTHING = And(()), Or(())
_timestamps = TimestampMatcher("clock")
_EQUALITY = frozenset({ComparisonOperator.EQ, ComparisonOperator.NE})
Comparison = FieldComparison | InList
Read = TypeVar("Read")


class ChildPart(NamedTuple):
    """A condition on parents, with their keys in place of their children's, which it holds for at least.

    `tokens` are those of the children that it decides for.
    """

    of_parents: FilterExpression
    tokens: TokenSet


@dataclass(frozen=True)
class ChildCondition:
    """A filter of a child set; None selects all children. With `group` those alone that have certain tokens."""

    child_set: ChildSet
    expression: FilterExpression | None
    group: TokenSet | None = None
    _literals: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def tokens(self) -> dict[FieldCondition, TokenSet]:
        """The comparisons with the tokens of children; raise ApiError for one that is not possible."""
        found: dict[FieldCondition, TokenSet] = {}
        for condition in conditions(self.expression) if self.expression else ():
            if (matcher := self.child_set.tokens(condition.field)) is not None:
                with refused(condition.field):
                    found[condition] = matcher.tokens(condition)
        return found

    @cached_property
    def parts(self) -> tuple[ChildPart, ...]:
        """The conditions on parents, each with the tokens of the children that it decides for."""
        if self.expression is None:
            return (ChildPart(_ALL, EVERY),)
        turned: defaultdict[str, list[FieldCondition]] = defaultdict(list, {"": []})
        for one, tokens in self.tokens.items():
            for bound in tokens.bounds:
                turned[bound].append(one)
        cuts, left = sorted(turned), list[FilterExpression]()
        found: dict[tuple[bool, ...], FilterExpression] = {}
        values = dict.fromkeys(self.tokens, False)
        for at in cuts:
            values |= {one: not values[one] for one in turned[at]}
            # Most cuts divide tokens that the same comparisons hold for.
            if (key := tuple(values.values())) not in found:
                found[key] = _left_of(self.expression, values)
            left.append(found[key])
        return tuple(
            ChildPart(
                _of_parents(rest, self.child_set.key),
                TokenSet.of_segments((at, one == rest) for at, one in zip(cuts, left, strict=True)),
            )
            for rest in dict.fromkeys(left)
            if rest != _NOTHING
        )

    @cached_property
    def all_tokens(self) -> TokenSet:
        """The tokens of children that may match."""
        return reduce(or_, (part.tokens for part in self.parts), NONE)

    @property
    def has_tokens(self) -> bool:
        """Whether tokens are compared."""
        return bool(self.tokens) or self.group is not None

    @property
    def token_fields(self) -> tuple[str, ...]:
        """The search field with the tokens, if any are compared."""
        return (TOKENS,) if self.has_tokens else ()

    def is_of_tokens(self, parent: str) -> bool:
        """Whether children of a parent match by their tokens alone."""
        return len(self.parts) < 2 and parent not in self.divided

    @cached_property
    def divided(self) -> frozenset[str]:
        """The keys of the parents of whose children only some may match."""
        return frozenset(
            name
            for literal in (compared_literals(self.expression, self.child_set.key) if self.expression else ())
            for name in spellings(ChildKey.of(literal.text).parent)
            if name
        )

    def predicate(self, parent: str) -> Predicate:
        """Return whether a child of a selected parent matches, as a function.

        It raises OptionNotImplemented for what cannot be compared. A comparison with the key of another parent's child
        is decided here, so that a child is compared with no literal but those for its own parent.
        """
        if self.group is None:
            return self._filtered(parent)
        tokens, matches = self.group, self._filtered(parent)
        return lambda child: tokens.has(child.token.text) and matches(child)

    def _filtered(self, parent: str) -> Predicate:
        if self.expression is None or (not self.tokens and parent not in self.divided):
            return lambda _: True
        if self.tokens and len(self.parts) == 1 and parent not in self.divided:
            return _with_token(self.parts[0].tokens)
        return compile_filter(self.expression, partial(self._compiled, parent))

    def _compiled(self, parent: str, condition: FieldCondition) -> Predicate | bool:
        declared, name = self.child_set, condition.field
        if condition in self.tokens:
            return _with_token(self.tokens[condition])
        if isinstance(condition, FieldComparison | InList):
            if name == declared.key:
                return self._compiled_key(parent, condition)
            if name == declared.parent_key:
                return self._compiled_parent(parent, condition)
            if name == MODIFICATION_TIMESTAMP:
                return self._read_once(condition, _compiled_clock)
            if name == declared.parent_type:
                matches = compile_comparison(condition, lambda _: "Property", attrgetter("text"))
                return matches if isinstance(matches, bool) else matches(None)
        return self._refused(name)

    def _compiled_key(self, parent: str, condition: Comparison) -> Predicate | bool:
        if isinstance(condition, InList):
            suffixes = self._read_once(condition, _suffixes_by_parent).get(parent)
            return False if suffixes is None else lambda child: child.key.suffix in suffixes
        operator = condition.operator
        if operator not in _EQUALITY or condition.value.type is LiteralType.NULL:
            return compile_comparison(condition, attrgetter("key"), lambda value: ChildKey.of(value.text))
        suffix = self._read_once(condition, _suffixes_by_parent).get(parent)
        if suffix is None:
            return operator is ComparisonOperator.NE
        return lambda child: (child.key.suffix in suffix) is (operator is ComparisonOperator.EQ)

    def _compiled_parent(self, parent: str, condition: Comparison) -> Predicate | bool:
        if isinstance(condition, InList):
            return parent in self._read_once(condition, _parents)
        if condition.operator in _EQUALITY and condition.value.type is not LiteralType.NULL:
            return (parent in self._read_once(condition, _parents)) is (condition.operator is ComparisonOperator.EQ)
        matches = compile_comparison(condition, lambda _: parent, attrgetter("text"))
        return matches if isinstance(matches, bool) else matches(None)

    def _read_once(self, condition: Comparison, read: Callable[[Comparison], Read]) -> Read:
        """Return what `read` makes of the literals of a condition, which it does for the first parent alone."""
        if id(condition) not in self._literals:
            self._literals[id(condition)] = read(condition)
        found: Read = self._literals[id(condition)]
        return found

    def _refused(self, name: str) -> Predicate | bool:
        def refuse(_: Child) -> bool:
            raise self._refusal(name)

        return refuse

    def _refusal(self, name: str) -> OptionNotImplemented:
        return OptionNotImplemented(FILTER, f"a filter by {self.child_set.key} together with this one by {name}")


@dataclass(frozen=True)
class ChildMatcher(Matcher):
    """The children of records, of which one matches; `require` refuses search fields that the index lacks."""

    child_set: ChildSet
    require: Callable[[tuple[str, ...]], None]

    def match_any(self, values: Sequence[FilterLiteral]) -> Clause:  # noqa: ARG002 - it has no single value
        """Raise UnsupportedComparison."""
        raise UnsupportedComparison(self._advice)

    def match_comparison(self, operator: ComparisonOperator, value: FilterLiteral) -> Clause:  # noqa: ARG002 - the same
        """Raise UnsupportedComparison."""
        raise UnsupportedComparison(self._advice)

    def match_elements(self, elements: ElementSet) -> Clause:
        if elements != ~ElementSet(frozenset()):
            raise UnsupportedComparison(self._advice)
        self.require((self.child_set.counted_by,))
        return {"exists": {"field": self.child_set.counted_by}}

    def match_children(self, expression: FilterExpression) -> Clause:
        """Match records with a child whose token matches; raise ApiError for what tokens do not say."""
        condition = ChildCondition(self.child_set, expression)
        for one in conditions(expression):
            if one.field not in self.child_set.properties:
                raise InvalidRequest.of(FILTER, f"{self.child_set.name} has no property {one.field!r}.")
            if one not in condition.tokens:
                raise OptionNotImplemented(FILTER, f"a filter by {one.field} within any or all")
        self.require(condition.token_fields)
        return condition.all_tokens.clause

    @property
    def _advice(self) -> str:
        return "is a collection of entities: write any(), or any(x:…) with a property behind x/"


def _with_token(tokens: TokenSet) -> Predicate:
    return lambda child: tokens.has(child.token.text)


def _left_of(expression: FilterExpression, known: Mapping[FieldCondition, bool]) -> FilterExpression:
    """Return what is left of an expression, some conditions of which are true or false."""

    def of_leaf(leaf: Leaf) -> FilterExpression:
        is_negated = isinstance(leaf, Negation)
        condition = leaf.condition if isinstance(leaf, Negation) else leaf
        if condition not in known:
            return leaf
        return _NOTHING if known[condition] is is_negated else _ALL

    def all_of(parts: Iterator[FilterExpression]) -> FilterExpression:
        left = [part for part in parts if part != _ALL]
        return _NOTHING if _NOTHING in left else left[0] if len(left) == 1 else And(tuple(left))

    def any_of(parts: Iterator[FilterExpression]) -> FilterExpression:
        left = [part for part in parts if part != _NOTHING]
        return _ALL if _ALL in left else left[0] if len(left) == 1 else Or(tuple(left))

    return fold(expression, of_leaf, all_of, any_of)


def _texts(condition: Comparison) -> list[str]:
    values = condition.values if isinstance(condition, InList) else (condition.value,)
    return [value.text for value in values if value.type is not LiteralType.NULL]


def _parents(condition: Comparison) -> set[str]:
    """Return the keys of parents in a condition, in each spelling."""
    return {name for text in _texts(condition) for name in spellings(text)}


def _suffixes_by_parent(condition: Comparison) -> dict[str, set[str]]:
    """Return the suffixes of the keys in a condition by their parent, in each spelling of it."""
    found: dict[str, set[str]] = {}
    for key in map(ChildKey.of, _texts(condition)):
        for parent in spellings(key.parent):
            found.setdefault(parent, set()).add(key.suffix)
    return found


def _compiled_clock(condition: Comparison) -> Predicate | bool:
    return compile_comparison(
        condition, lambda child: child.header.clock, lambda value: _timestamps.parse_number(value.text)
    )


def _of_parents(expression: FilterExpression, key: str) -> FilterExpression:
    def of_leaf(leaf: Leaf) -> FilterExpression:
        is_negated = isinstance(leaf, Negation)
        match leaf.condition if isinstance(leaf, Negation) else leaf:
            case FieldComparison(name, operator, value) if name == key:
                return _parent_comparison(name, operator, value, is_negated=is_negated)
            case InList(name, values) if name == key:
                parents = InList(name, tuple(map(_parent_literal, values)))
                # Refused if a value is of another type, else true of all.
                return Or((parents, _ALL)) if is_negated else parents
        return leaf

    return fold(expression, of_leaf, lambda parts: And(tuple(parts)), lambda parts: Or(tuple(parts)))


def _parent_comparison(
    name: str, operator: ComparisonOperator, value: FilterLiteral, *, is_negated: bool
) -> FilterExpression:
    if value.type is LiteralType.NULL:
        is_all = (operator is ComparisonOperator.NE) is not is_negated
        return _ALL if is_all else FieldComparison(name, ComparisonOperator.EQ, NULL)
    operator = operator.complement if is_negated else operator
    parent = _parent_literal(value)
    if operator is ComparisonOperator.NE:
        return Or((FieldComparison(name, ComparisonOperator.EQ, parent), _ALL))
    return FieldComparison(name, _OF_PARENT.get(operator, operator), parent)


def _parent_literal(value: FilterLiteral) -> FilterLiteral:
    """Return the key of the parent in the key of a child; a literal of another type as it is, which is refused."""
    return value._replace(text=ChildKey.of(value.text).parent) if value.type is LiteralType.TEXT else value
