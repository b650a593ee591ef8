"""What a kind of change is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.reso.world.random_changes import ChangeContext

# The resource and the key that were changed; None: there is nothing of the kind to change.
Target = tuple[str, str] | None


class ChangeKindSpec(NamedTuple):
    """`weight`: how often it is made compared with the others."""

    weight: int
    make: Callable[[ChangeContext], Target]
