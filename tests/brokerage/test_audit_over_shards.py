"""The audit of an index of several shards: each record that is sent is recorded once, and none that is not."""

import pytest

from tests.brokerage.test_audit_command import SINCE, who
from tests.feed.feed_client import listing
from tests.service.audit.conftest import AuditedService, audited, bench

__all__ = ["audited", "bench"]

# The listings of the company a, in two shards.
OF_A = ["L0", "L2", "L4"]


@pytest.fixture
def shards() -> int:
    """Four, whatever the command line says."""
    return 4


@pytest.mark.parametrize("brief", ["", "&timestamps_only=true"])
async def test_a_page_over_a_cut_is_recorded_as_it_is_sent(audited: AuditedService, brief: str) -> None:
    """A search reads one record more than the page has, from the next shard if need be."""
    await audited.json("listings/L1", "all")  # the service knows the shards
    recorded: list[str] = []
    for size, sent in ((1, 1), (2, 2), (3, 3), (10, 3)):
        page = await audited.json(f"listings?{SINCE}&page_size={size}{brief}", "a")
        assert [listing["PlatformListingId"] for listing in page["Listings"]] == OF_A[:sent]
        recorded += OF_A[:sent]
        assert await audited.sent("a") == {("listings", "live"): sorted(recorded)}, size


async def test_of_a_record_that_changed_its_shard_the_present_state_is_named(audited: AuditedService) -> None:
    """The copy that it left is older."""
    await audited.json("listings/L0", "all")
    await audited.update(listing("L0", "b", 100), listing("L1", "a", 100), listing("L5", "a", 100))
    sequence = await audited.sequence()
    found = [(await who(audited, name))["records"][0]["sequence"] for name in ("L0", "L1", "L5")]
    assert sequence - 6 < min(found) < max(found) == sequence
    assert not (await who(audited, "L0"))["holders"]["all"]["is_current"]
