"""One cluster of three for all tests that need it, started by the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.ground import SHORT, grounded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.chaos.ground import Ground


@pytest.fixture(scope="session")
async def shared_ground() -> AsyncIterator[Ground]:
    """Three nodes with a little data."""
    async with grounded(SHORT) as ground:
        yield ground


@pytest.fixture
async def ground(shared_ground: Ground) -> Ground:
    """The same, whole again whatever a test before has done to it."""
    await shared_ground.nodes.complete()
    return shared_ground
