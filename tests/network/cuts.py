"""Where an answer is cut: a function from what has come of it to the number of bytes that still pass."""

import random
from collections.abc import Callable

from tests.network.link import Cut

_HEAD_END = b"\r\n\r\n"
_LARGEST = 200_000  # bytes; most pages of the walks are below


def after(count: int) -> Cut:
    """Cut behind so many bytes of the answer."""
    return lambda answer: count if len(answer) >= count else None


def in_head(answer: bytes) -> int | None:
    """Cut in the middle of the head."""
    return max(1, answer.find(_HEAD_END) // 2) if _HEAD_END in answer else None


def behind_head(answer: bytes) -> int | None:
    """Cut right behind the head, before anything of the body."""
    at = answer.find(_HEAD_END)
    return None if at < 0 else at + len(_HEAD_END)


def in_chunk(answer: bytes) -> int | None:
    """Cut in the middle of the first chunk; a body in one piece is cut in its middle."""
    found = _first_chunk(answer)
    return None if found is None else (found[0] + found[1]) // 2


def between_chunks(answer: bytes) -> int | None:
    """Cut behind the first chunk, where all that came is well formed; a body in one piece loses its last byte."""
    found = _first_chunk(answer)
    return None if found is None or len(answer) < found[1] else found[1]


def _first_chunk(answer: bytes) -> tuple[int, int] | None:
    """Return where the first chunk begins and ends; None while that is unknown."""
    head, ended, rest = answer.partition(_HEAD_END)
    if not ended:
        return None
    begins = len(head) + len(_HEAD_END)
    if b"chunked" not in head.lower():
        [length] = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-len")]
        return begins, begins + length - 1
    size, ended, _ = rest.partition(b"\r\n")
    if not ended:
        return None
    begins += len(size) + 2
    return begins, begins + int(size, 16) + 2


def at_random(chance: random.Random, share: float) -> Callable[[], Cut | None]:
    """Cut a share of the answers, each at a place of its own."""

    def cutting() -> Cut | None:
        if chance.random() >= share:
            return None
        return chance.choice([in_head, behind_head, in_chunk, between_chunks, after(chance.randrange(1, _LARGEST))])

    return cutting
