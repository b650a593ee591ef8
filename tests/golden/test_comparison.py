"""The comparison names what differs, and nothing else."""

from dataclasses import replace

import pytest

from tests.golden.comparison import differences
from tests.golden.exchange import Response
from tests.golden.rows import Request, requests

REQUEST = Request("/v1/teams", "all")
FIRST = Response(
    "HTTP/1.1 404 Not Found",
    (("Cache-Control", "no-store"), ("Date", "Thu, 26 Nov 2026 23:13:11 GMT"), ("X-Request-Id", "0123456789abcdef")),
    b'{"status":404,"code":"not-found","request_id":"0123456789abcdef"}',
)


def test_what_may_differ_is_no_difference() -> None:
    headers = (FIRST.headers[0], ("Date", "Fri, 27 Nov 2026 01:02:03 GMT"), ("X-Request-Id", "fedcba9876543210"))
    second = Response(FIRST.status, headers, FIRST.body.replace(b"0123456789abcdef", b"fedcba9876543210"))
    assert differences(REQUEST, FIRST, FIRST) == differences(REQUEST, FIRST, second) == []


@pytest.mark.parametrize(("code", "number"), [("rate-limited", 0), ("too-many-at-once", 1)])
def test_seconds_until_the_rate_allows_a_request_may_differ_and_others_not(code: str, number: int) -> None:
    first, second = (
        Response("HTTP/1.1 429 Too Many Requests", (("Retry-After", seconds),), b'{"code":"%b"}' % code.encode())
        for seconds in "12"
    )
    assert len(differences(REQUEST, first, second)) == number


@pytest.mark.parametrize(
    ("second", "named"),
    [
        (replace(FIRST, status="HTTP/1.1 410 Gone"), "status: 'HTTP/1.1 404 Not Found' became 'HTTP/1.1 410 Gone'"),
        (replace(FIRST, headers=FIRST.headers[1:]), "header Cache-Control: 'no-store' became ''"),
        (replace(FIRST, headers=(*FIRST.headers[:2], ("X-Request-Id", "1"))), "header X-Request-Id: '*' became '1'"),
        (replace(FIRST, body=FIRST.body.replace(b"not-found", b"not_found")), "body, byte 25 of 50 and 50"),
        (replace(FIRST, body=b'{"code":"not-found","status":404}'), "body, byte 2 of 50 and 33"),
        (
            replace(FIRST, body=FIRST.body.replace(b"0123456789abcdef", b"fedcba9876543210")),
            "body, byte 47 of 50 and 65",
        ),
    ],
)
def test_every_other_difference_is_named(second: Response, named: str) -> None:
    difference, *_ = differences(REQUEST, FIRST, second)
    assert difference.startswith(f"GET /v1/teams  @all\n    {named}")


def test_rows_are_expanded_and_encoded() -> None:
    made = [*requests("HEAD  /v1/[a|b]?q={name} x  @[one|two]  Accept: {name}", {"name": "ü"})]
    assert [(each.target, each.key) for each in made[:2]] == [
        ("/v1/a?q=%C3%BC%20x", "one"),
        ("/v1/a?q=%C3%BC%20x", "two"),
    ]
    assert {(each.method, each.headers) for each in made} == {("HEAD", (("Accept", "ü"),))}
    assert len(made) == 4
