"""A service that lacks some resources: the others are copied, and those that appear later are picked up."""

from pathlib import Path

import pytest

from brokerage_feed.errors import FeedUnavailable
from brokerage_feed.pull import PullPlan, pull_once
from brokerage_feed.pull_progress import PullStage, VerificationOutcome
from tests.consumer.conftest import ServedStandIn, copied, open_pull, run
from tests.consumer.stand_in_service import KEY
from tests.consumer.test_pull_command import summary
from tests.internals import Internals


@pytest.fixture
def absent(served: ServedStandIn) -> None:
    """A service without teams and sold listings."""
    for name in ("teams", "sold_listings"):
        served.stand_in.held[name].clear()
        served.stand_in.absent.add(name)


@pytest.mark.usefixtures("absent")
async def test_what_exists_is_copied_and_what_is_absent_is_named(served: ServedStandIn, tmp_path: Path) -> None:
    code, out, err = await run(tmp_path, "--url", served.url, key=KEY)
    assert (code, err) == (0, "")
    assert copied(tmp_path) == served.stand_in.contents()
    stages = {name: status["stage"] for name, status in summary(out).items()}
    assert {name for name, stage in stages.items() if stage == "absent"} == {"teams", "sold_listings"}
    # Once for each resource, without waiting for it to appear.
    asked = [path for path, _ in served.stand_in.asked if path.startswith("/v1/snapshot/")]
    assert len(asked) == len(stages)


@pytest.mark.usefixtures("absent")
async def test_a_resource_that_appears_is_picked_up_by_the_same_pull(
    served: ServedStandIn, tmp_path: Path, internals: Internals
) -> None:
    internals(absent_resource_seconds=0.0)
    async with open_pull(served.url, tmp_path) as (pull, statuses):
        await pull_once(pull, PullPlan(tmp_path))
        assert {status.resource for status in statuses if status.stage is PullStage.ABSENT} == {
            "teams",
            "sold_listings",
        }
        served.stand_in.absent.discard("teams")
        served.stand_in.put("teams", "t1")
        await pull_once(pull, PullPlan(tmp_path))
    assert pull.statuses["teams"].proof is VerificationOutcome.EQUAL
    assert copied(tmp_path) == served.stand_in.contents()


@pytest.mark.usefixtures("absent")
async def test_an_absent_resource_is_not_requested_in_every_round(served: ServedStandIn, tmp_path: Path) -> None:
    async with open_pull(served.url, tmp_path) as (pull, _):
        for _ in range(3):
            await pull.catch_up()
    assert [path for path, _ in served.stand_in.asked].count("/v1/snapshot/teams") == 1


async def test_a_service_without_any_data_is_unavailable(served: ServedStandIn, tmp_path: Path) -> None:
    served.stand_in.absent.update(served.stand_in.held)
    async with open_pull(served.url, tmp_path) as (pull, _):
        with pytest.raises(FeedUnavailable, match="no data yet of companies, offices"):
            await pull_once(pull, PullPlan(tmp_path))


@pytest.mark.usefixtures("waits")
async def test_a_resource_that_vanishes_after_it_was_copied_is_an_error(served: ServedStandIn, tmp_path: Path) -> None:
    async with open_pull(served.url, tmp_path) as (pull, _):
        await pull_once(pull, PullPlan(tmp_path))
    held = copied(tmp_path)
    served.stand_in.epochs["teams"] += 1

    async with open_pull(served.url, tmp_path) as (pull, _):
        served.stand_in.absent.add("teams")
        with pytest.raises(FeedUnavailable, match="not-loaded"):
            await pull_once(pull, PullPlan(tmp_path))
    assert copied(tmp_path) == held
