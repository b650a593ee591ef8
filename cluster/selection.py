"""Which node is asked: among those that answer, the one with the fewest requests under way."""

from __future__ import annotations

from random import random
from typing import TYPE_CHECKING, Any, cast

from elastic_transport import NodePool

if TYPE_CHECKING:
    from elastic_transport import BaseNode

    from cluster.node import ReadingNode


class FewestUnderWay(NodePool):
    """Nodes that know themselves how they are, with a choice among all of them for every request.

    Taken in turns, a slow node collects the requests of all connections. The client's own pool, in turn, puts a node
    away for any status that is no success, longer for each request that was under way when it failed, gives it back to
    everybody at once, and asks nobody which node to take once a single one is left.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the options of the client's own pool, for nodes of the class ReadingNode. None is added later."""
        super().__init__(*args, **options)
        self._nodes = cast("list[ReadingNode]", self.all())
        for node in self._nodes:
            node.pulse.others = [other.pulse for other in self._nodes if other is not node]

    def get(self) -> ReadingNode:
        """Return the node for the next request: one that failed or is silent only where all did or are."""
        return self._nodes[0] if len(self._nodes) == 1 else min(self._nodes, key=_rank)

    def mark_dead(self, node: BaseNode, _now: float | None = None) -> None:
        """Do nothing: the node has seen it."""

    def mark_live(self, node: BaseNode) -> None:
        """Do nothing: the node has seen it."""


def _rank(node: ReadingNode) -> tuple[int, int, float]:
    """Return what is least for the node to be taken, ties at random."""
    pulse = node.pulse
    return pulse.reluctance, len(pulse.under_way), random()  # noqa: S311 - no secret
