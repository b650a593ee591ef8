"""The questions as requests to the service, and how the requests of one arm vary."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from bench.arms import DEPTHS, Arm
from bench.options import Options

COMPANY: Final = "summit-crest"
ROOT: Final = "/v1"
# Marks the cursor in the bytes of a request, and is as long as any cursor that replaces it.
SENTINEL: Final = "5eed5eed"


@dataclass(frozen=True)
class Question:
    """A path and its parameters; `{page}` and `{large}` are the sizes of pages, `resource` is what is searched."""

    path: str
    parameters: dict[str, str]
    resource: str = "listings"


_FEED = {
    "platform_company_id": COMPANY,
    "market_status": "all",
    "updated_since": "1",
    "page_size": "{page}",
    "last_platform_listing_id": SENTINEL,
}
QUESTIONS: Final = {
    "page": Question("/listings", _FEED),
    "large page": Question("/listings", _FEED | {"page_size": "{large}"}),
    "underscore_response": Question("/listings", _FEED | {"underscore_response": "true"}),
    "timestamps_only": Question("/listings", _FEED | {"timestamps_only": "true"}),
    "show": Question("/listings/{id}", {}),
    "agents": Question("/agents", {"platform_company_id": COMPANY, "updated_since": "1"}, "agents"),
    "offices": Question("/offices", {"platform_company_id": COMPANY}, "offices"),
}


def target(question: str, options: Options, identifier: str) -> str:
    """Return the path and query of a request to the service; `identifier` is the listing that a show is of."""
    asked = QUESTIONS[question]
    sizes = {"page": options.page, "large": options.large_page}
    query = urlencode({name: value.format_map(sizes) for name, value in asked.parameters.items()})
    return ROOT + asked.path.format(id=quote(identifier)) + (f"?{query}" if query else "")


@dataclass(frozen=True)
class Variety:
    """How requests differ: `sentinel` in the template gives way to a value of the same length."""

    sentinel: bytes
    depth: str
    known: Sequence[bytes] = ()

    def values(self, seed: str, count: int) -> list[bytes]:
        """Return `count` values; the same seed and depth give the same ones to every arm."""
        chance = random.Random(f"{seed} {self.depth}")  # noqa: S311 - no secret
        if self.known:
            return chance.choices(self.known, k=count)
        low, high = DEPTHS[self.depth]
        return [cursor(chance.uniform(low, high)) for _ in range(count)]


def cursor(share: float) -> bytes:
    """Return a cursor behind this share of a company: identifiers are random UUIDs, so their first digits suffice."""
    return b"%08x" % min(0xFFFFFFFF, int(share * 0x100000000))


def variety(arm: Arm, identifiers: Sequence[str]) -> Variety | None:
    """Return how the requests of an arm differ; None where all are the same."""
    if arm.question == "show":
        known = [identifier.encode() for identifier in identifiers]
        return Variety(known[0], "", known)
    if "last_platform_listing_id" in QUESTIONS[arm.question].parameters:
        return Variety(SENTINEL.encode(), arm.depth)
    return None
