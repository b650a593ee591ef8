"""Texts of error responses: parsed, raw, or from a proxy in between."""

import pytest

from cluster.client import error_reason, is_write_block


def block(reason: str, error_type: str = "cluster_block_exception") -> dict[str, object]:
    return {"error": {"type": error_type, "reason": reason}, "status": 503}


BLOCKED = block("read-only")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (BLOCKED, "read-only"),
        (b'{"error":{"type":"x","reason":"outer","caused_by":{"reason":"inner"}}}', "outer: inner"),
        (b'{"error":"no handler found"}', "no handler found"),
        (b"no healthy upstream \xff", "no healthy upstream �"),
        (b"[1]", "[1]"),
        ("text", "text"),
        ({"error": {"reason": "of a bulk item"}}, "of a bulk item"),
    ],
)
def test_the_reason_is_found_in_whatever_came(body: object, expected: str) -> None:
    assert error_reason(body) == expected


@pytest.mark.parametrize(
    ("body", "blocked"),
    [
        (block("index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark];"), True),
        (block("index [a] blocked by: [FORBIDDEN/8/index write (api)];"), True),
        (block("blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];"), False),
        (block("blocked by: [SERVICE_UNAVAILABLE/2/no master];"), False),
        (block("index [a] blocked by: [FORBIDDEN/8/index write (api)];", "es_rejected_execution_exception"), False),
        ("text", False),
        (BLOCKED, True),
        (b'{"error":{"type":"cluster_block_exception"}}', True),
        (b'{"error":{"type":"es_rejected_execution_exception"}}', False),
        (b"cluster_block_exception", False),
        (b"", False),
        (None, False),
    ],
)
def test_a_block_that_does_not_pass_by_itself_is_known_in_whatever_came(body: object, blocked: bool) -> None:
    assert is_write_block(body) is blocked
