"""Arms of a round ask for the same places, rounds for different ones, and a request keeps its length."""

from urllib.parse import parse_qs, urlsplit

import pytest

from bench.client import post
from bench.questions import (
    BY_COMPANY,
    GROUPS,
    POSTGRES,
    RAW,
    RELAY,
    SERVICE,
    TWO_WORKERS,
    Absent,
    Arm,
    Heard,
    Template,
    Templates,
    cursor,
)

PUBLIC = {arm.answers: "http://127.0.0.1:1" for group in GROUPS.values() for arm in group}
PAGE = Heard("POST", "/listings/_search", b'{"gt":"one:5eed5eed"}')
HEARD = {RAW: {"page": PAGE}, BY_COMPANY: {"page": PAGE}}
TEMPLATES = Templates(PUBLIC, HEARD, "key", ["a-1", "b-2", "c-3"], page=7, large_page=70)


def test_a_cursor_is_as_deep_as_it_says() -> None:
    assert [cursor(share) for share in (0, 0.25, 0.5, 1)] == [b"00000000", b"40000000", b"80000000", b"ffffffff"]


def test_cursors_lie_within_their_depth_and_differ_by_round() -> None:
    deep = Template("", b"5eed5eed", "identity", "97 %")
    values = deep.requests("round 1", 50)
    assert values == deep.requests("round 1", 50)
    assert len(set(values)) == 50
    assert not set(values) & set(deep.requests("round 2", 50))
    assert cursor(0.96) <= min(values) < max(values) <= cursor(0.97)


def test_every_arm_reads_the_same_places_in_a_round() -> None:
    def places(arm: Arm) -> list[bytes]:
        template = TEMPLATES.of(arm)
        before, _, after = template.request.partition(b"5eed5eed")
        requests = template.requests("round 3", 5)
        assert {len(request) for request in requests} == {len(template.request)}
        assert [request.startswith(before) and request.endswith(after) for request in requests] == [True] * 5
        return [request[len(before) : len(before) + 8] for request in requests]

    answering = (RAW, SERVICE, TWO_WORKERS, POSTGRES, BY_COMPANY)
    found = [places(Arm(answers, depth="97 %")) for answers in answering]
    assert found == [found[0]] * len(answering)
    assert len(set(found[0])) == 5


def test_the_same_body_is_the_one_that_was_recorded() -> None:
    request = TEMPLATES.of(Arm(RAW)).request
    assert request == post("http://127.0.0.1:1", "/listings/_search", PAGE.body)


def test_who_is_missing_is_absent_with_the_reason() -> None:
    missing = {RELAY: "nginx is not installed"}
    with pytest.raises(Absent, match="nginx is not installed"):
        Templates({}, HEARD, "key", ["a-1"], 7, 70, missing).of(Arm(RELAY))


@pytest.mark.parametrize(("servers", "arm"), [(PUBLIC, Arm(RAW, "large page")), ({}, Arm(RAW))])
def test_arms_that_were_not_recorded_or_do_not_run_are_absent(servers: dict[str, str], arm: Arm) -> None:
    with pytest.raises(Absent):
        Templates(servers, HEARD, "key", ["a-1"], 7, 70).of(arm)


def test_shows_ask_for_different_listings() -> None:
    requests = TEMPLATES.of(Arm(SERVICE, "show", "")).requests("round 1", 40)
    assert {request.split(b" ")[1] for request in requests} == {
        b"/v1/listings/" + each for each in (b"a-1", b"b-2", b"c-3")
    }


def test_a_question_is_asked_with_the_sizes_of_the_run_and_the_encoding_of_its_arm() -> None:
    asked = {name: parse_qs(urlsplit(TEMPLATES.target(name)).query) for name in ("page", "large page")}
    assert {name: query["page_size"] for name, query in asked.items()} == {"page": ["7"], "large page": ["70"]}
    assert b"\r\nAccept-Encoding: zstd\r\n" in TEMPLATES.of(Arm(SERVICE, encoding="zstd")).request
