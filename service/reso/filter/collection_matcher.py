"""Collections of texts, indexed verbatim: `any` and `all` become lists and ranges of the indexed texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from service.reso.filter.expression import ComparisonOperator, ElementSet, FilterLiteral, LiteralType
from service.reso.filter.matchers import MATCH_NONE, Matcher, UnsupportedComparison
from service.search.query import Clause, match_any, terms

_COLLECTION = "is a collection: write any(x:x eq 'value') or all(x:x eq 'value')"


@dataclass(frozen=True)
class CollectionMatcher(Matcher):
    """A collection of texts, which is never null."""

    name: str

    def match_any(self, values: Sequence[FilterLiteral]) -> Clause:  # noqa: ARG002 - it has no single value
        """Raise UnsupportedComparison."""
        raise UnsupportedComparison(_COLLECTION)

    def match_comparison(self, operator: ComparisonOperator, value: FilterLiteral) -> Clause:  # noqa: ARG002 - the same
        """Raise UnsupportedComparison."""
        raise UnsupportedComparison(_COLLECTION)

    def match_has(self, value: FilterLiteral) -> Clause:
        """Match collections with an element."""
        if value.type is not LiteralType.TEXT:
            raise UnsupportedComparison(f"has {LiteralType.TEXT}")
        return self.match_elements(ElementSet(frozenset({value.text})))

    def match_elements(self, elements: ElementSet) -> Clause:
        """Match collections with an element of a set."""
        texts = sorted(elements.texts, key=str.encode)
        if not elements.is_complement:
            return terms(self.name, texts) if texts else MATCH_NONE
        if not texts:
            return {"exists": {"field": self.name}}
        # Every other text is before the first, after the last, or between two.
        bounds = [{"lt": texts[0]}, {"gt": texts[-1]}, *({"gt": low, "lt": high} for low, high in pairwise(texts))]
        clauses: list[Clause] = [{"range": {self.name: bound}} for bound in bounds]
        return match_any(*clauses)
