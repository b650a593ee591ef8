"""What a key may ask for: tiers, bursts, the bucket against a model of it, and what the headers promise."""

import datetime as dt
import re
from fractions import Fraction
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.settings import SettingError, load_settings
from service.keys.api_key import ApiKey
from service.limits.rates import LocalBuckets, RateLimitState, key_policy
from service.settings import MAX_PER_MINUTE, RatePolicy, ServiceSettings, default_burst, read_tiers
from tests.internals import Internals, internals_set

SECOND = 1_000_000
RATE_LIMIT = re.compile(r'"burst";r=(\d+);t=(\d+)')
POLICY = re.compile(r'"burst";q=(\d+);w=(\d+),"minute";q=(\d+);w=60')

policies = st.builds(RatePolicy, st.integers(1, 5_000), st.integers(1, 60))
waits = st.lists(st.integers(0, 20 * SECOND), min_size=1, max_size=120)


class MicrosecondClock:
    """A clock that advances only when moved."""

    def __init__(self) -> None:
        self.microseconds = 3600 * SECOND

    def monotonic_ns(self) -> int:
        """Return it in nanoseconds."""
        return self.microseconds * 1000


@pytest.fixture
def clock(internals: Internals) -> MicrosecondClock:
    """The clock of the buckets."""
    clock = MicrosecondClock()
    internals(rates_time=clock)
    return clock


def key(**about: Any) -> ApiKey:
    return ApiKey(key_id="a", name="a", digest="", created=dt.datetime.now(dt.UTC), **about)


@pytest.mark.parametrize(("rate", "burst"), [(1, 1), (19, 19), (20, 20), (60, 20), (120, 20), (300, 50), (3000, 500)])
def test_the_burst_is_ten_seconds_of_the_rate_at_least_20_and_at_most_the_rate(rate: int, burst: int) -> None:
    assert default_burst(rate) == burst


def test_tiers_are_read_with_and_without_a_burst() -> None:
    assert read_tiers(("gold=3000/500", "bronze=60")) == {"gold": RatePolicy(3000, 500), "bronze": RatePolicy(60, 20)}


@pytest.mark.parametrize(
    "text", ["gold", "gold=", "=5", "gold=-1", "gold=5/", "gold=0", "gold=5/0", "gold=5/5/5", "gold=60001", "g=1/60001"]
)
def test_a_tier_that_cannot_be_used_is_named(text: str) -> None:
    with pytest.raises(SettingError, match=re.escape(repr(text))):
        load_settings(ServiceSettings, {"BROKERAGE_TIERS": f"fine=60,{text}"})


@pytest.mark.parametrize("text", ["gold=1e3", "gold=٣", "Gold=5", "gold = 5", "gold=5 0", "gold=5=6"])
def test_a_tier_is_letters_and_digits(text: str) -> None:
    with pytest.raises(SettingError, match="not of the form"):
        read_tiers((text,))


def test_a_tier_that_is_named_twice_is_refused() -> None:
    with pytest.raises(SettingError, match="repeats the name"):
        read_tiers(("gold=60", "gold=70"))


@pytest.mark.parametrize(
    ("about", "policy"),
    [
        ({}, RatePolicy(300, 50)),
        ({"rate": None}, None),
        ({"rate": 600}, RatePolicy(600, 100)),
        ({"burst": 7}, RatePolicy(300, 7)),
        ({"rate": None, "burst": 7}, None),
        ({"tier": "gold"}, RatePolicy(3000, 400)),
        ({"tier": "gold", "rate": None}, RatePolicy(3000, 400)),
        ({"tier": "gold", "burst": 7}, RatePolicy(3000, 7)),
        ({"tier": "unknown", "rate": 60}, RatePolicy(60, 20)),
        ({"rate": 0}, RatePolicy(1, 1)),
        ({"rate": -5, "burst": 0}, RatePolicy(1, 1)),
        ({"rate": 10**9}, RatePolicy(MAX_PER_MINUTE, 10_000)),
    ],
)
def test_a_key_has_the_rate_of_its_tier_or_its_own(about: dict[str, Any], policy: RatePolicy | None) -> None:
    assert key_policy(key(**about), read_tiers(("gold=3000/400",))) == policy


@given(policy=policies, waits=waits)
def test_a_bucket_gives_what_its_model_gives(policy: RatePolicy, waits: list[int]) -> None:
    clock = MicrosecondClock()
    with internals_set(rates_time=clock):
        buckets = LocalBuckets(10)
        held = Fraction(policy.burst)
        for wait in waits:
            clock.microseconds += wait
            held = min(held + Fraction(wait, policy.interval_microseconds), Fraction(policy.burst))
            standing = RateLimitState(policy, buckets.take("a", policy))
            assert standing.is_allowed == (held >= 1)
            held -= standing.is_allowed
            assert standing.headers()["X-RateLimit-Remaining"] == str(int(held))


@given(policy=policies, waits=waits)
def test_who_keeps_to_the_published_burst_is_never_refused(policy: RatePolicy, waits: list[int]) -> None:
    match = POLICY.fullmatch(RateLimitState(policy, policy.interval_microseconds).headers()["RateLimit-Policy"])
    assert match is not None
    quota, window = int(match[1]), int(match[2]) * SECOND
    sent: list[int] = []
    clock = MicrosecondClock()
    with internals_set(rates_time=clock):
        buckets, begun = LocalBuckets(10), clock.microseconds
        for at in accumulate(waits):
            if sum(other > at - window for other in sent) < quota:
                sent.append(at)
                clock.microseconds = begun + at
                assert RateLimitState(policy, buckets.take("a", policy)).is_allowed


@given(policy=policies, waits=waits)
def test_after_retry_after_one_more_request_is_allowed(policy: RatePolicy, waits: list[int]) -> None:
    clock = MicrosecondClock()
    with internals_set(rates_time=clock):
        buckets = LocalBuckets(10)
        for wait in waits:
            clock.microseconds += wait // 20
            standing = RateLimitState(policy, buckets.take("a", policy))
            if not standing.is_allowed:
                assert standing.retry_after >= 1
                clock.microseconds += standing.retry_after * SECOND
                assert RateLimitState(policy, buckets.take("a", policy)).is_allowed


def test_a_bucket_that_is_empty_gives_exactly_the_rate(clock: MicrosecondClock) -> None:
    policy, buckets = RatePolicy(7, 3), LocalBuckets(10)
    given = 0
    for _ in range(6_000):
        clock.microseconds += SECOND // 100
        given += RateLimitState(policy, buckets.take("a", policy)).is_allowed
    assert given == 3 + 6


def test_headers_count_down_and_give_the_reset_time(clock: MicrosecondClock) -> None:
    policy, buckets = RatePolicy(30, 3), LocalBuckets(10)
    states = [RateLimitState(policy, buckets.take("a", policy)).headers() for _ in range(4)]
    assert [headers["RateLimit"] for headers in states] == [
        '"burst";r=2;t=2', '"burst";r=1;t=2', '"burst";r=0;t=2', '"burst";r=0;t=2'
    ]  # fmt: skip
    assert [headers["X-RateLimit-Remaining"] for headers in states] == ["2", "1", "0", "0"]
    assert [headers["X-RateLimit-Reset"] for headers in states] == ["2", "4", "6", "6"]
    assert {headers["X-RateLimit-Limit"] for headers in states} == {"3"}
    assert {headers["RateLimit-Policy"] for headers in states} == {'"burst";q=3;w=6,"minute";q=30;w=60'}
    clock.microseconds += SECOND
    assert RateLimitState(policy, buckets.take("a", policy)).headers()["RateLimit"] == '"burst";r=0;t=1'


@pytest.mark.usefixtures("clock")
def test_what_is_put_back_is_there_again_and_never_more_than_the_burst() -> None:
    policy, buckets = RatePolicy(60, 2), LocalBuckets(10)
    assert [RateLimitState(policy, buckets.take("a", policy)).is_allowed for _ in range(3)] == [True, True, False]
    for expected in ("1", "2", "2"):
        assert RateLimitState(policy, buckets.put_back("a", policy)).headers()["X-RateLimit-Remaining"] == expected
    assert [RateLimitState(policy, buckets.take("a", policy)).is_allowed for _ in range(3)] == [True, True, False]


@pytest.mark.usefixtures("clock")
def test_buckets_are_bounded_and_active_keys_are_kept() -> None:
    policy, buckets = RatePolicy(1, 1), LocalBuckets(100)
    for number in range(1_000):
        buckets.take("always", policy)
        buckets.take(str(number), policy)
    assert len(buckets) == 100
    assert not RateLimitState(policy, buckets.take("always", policy)).is_allowed
    assert not RateLimitState(policy, buckets.take("999", policy)).is_allowed
    assert RateLimitState(policy, buckets.take("0", policy)).is_allowed


@pytest.mark.parametrize("rate", [7, 11, 60, 299, 5_000])
def test_an_interval_is_rounded_so_that_a_minute_holds_no_more_than_the_rate(rate: int) -> None:
    interval = RatePolicy(rate, 1).interval_microseconds
    assert (interval - 1) * rate < 60 * SECOND <= interval * rate
