"""The queries of walks: key, companies and shape, and the records that match each."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mappings import LISTING, SOLD_LISTING, Resource
from mappings.listing import ON_MARKET_STATUSES
from tests.chaos.machine_model import CHILDREN, LONE, NUMBERS, PARENT, STATUSES, form_of
from tests.indexer.expected_state import TeamState

_MARKETS = {
    "all": frozenset(STATUSES),
    "on-market": frozenset(ON_MARKET_STATUSES),
    "off-market": frozenset(STATUSES) - {*ON_MARKET_STATUSES, "ComingSoon"},
}
STYLES: tuple[dict[str, str], ...] = (
    {},
    {"underscore_response": "true"},
    {"timestamps_only": "true"},
    {"timestamps_only": "true", "underscore_response": "true"},
)


@dataclass(frozen=True)
class FeedQuery:
    """The query of a walk, and the records that match; no `companies` means all."""

    resource: Resource = field(repr=False)
    key: str
    parameters: dict[str, str]
    companies: frozenset[str]
    market: str = "all"

    def matches(self, state: TeamState | None) -> bool:
        """Whether a record in this state matches the walk."""
        if state is None or state.name is None:
            return False
        form = form_of(state.name)
        return form.company in self.companies and form.status in _MARKETS[self.market]

    @property
    def query(self) -> dict[str, str]:
        """The parameters as they are sent."""
        return self.parameters | ({"market_status": self.market} if self.resource is LISTING else {})


def _listings(key: str, company: str, **more: str) -> list[FeedQuery]:
    parameters = {"platform_company_id": company, **more}
    of = frozenset(name for name, number in NUMBERS.items() if company in {name, number})
    return [FeedQuery(LISTING, key, parameters, of, market) for market in _MARKETS]


def _sold(key: str, companies: Iterable[str], **parameters: str) -> FeedQuery:
    return FeedQuery(SOLD_LISTING, key, parameters, frozenset(companies))


FEED_QUERIES = {
    LISTING: [
        *_listings("child", CHILDREN[0]),
        *_listings("all", NUMBERS[LONE]),
        *_listings("parent", NUMBERS[CHILDREN[1]], parent_company_id=PARENT),
        *_listings("two", CHILDREN[0]),
    ],
    SOLD_LISTING: [
        _sold("all", NUMBERS),
        _sold("all", CHILDREN, parent_company_id=PARENT),
        _sold("child", CHILDREN[:1]),
        _sold("parent", (PARENT, *CHILDREN)),
        _sold("parent", CHILDREN, parent_company_id=NUMBERS[PARENT]),
        _sold("two", (CHILDREN[0], LONE)),
        _sold("all", [LONE], platform_company_id=LONE),
    ],
}
# What is kept by polling: one company, and all that the resource's feed gives at once.
POLLED = {LISTING: (0, 3), SOLD_LISTING: (0, 1)}
