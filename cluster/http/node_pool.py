"""Selection of a node: the responsive one with the fewest requests in flight."""

from random import random
from typing import Any, cast

from elastic_transport import BaseNode, NodePool

from cluster.http.reading_node import ReadingNode


class LeastRequestsPool(NodePool):
    """Selects a node for every request by the health that nodes track themselves.

    With round robin, a slow node would collect the requests of all connections. The client's own pool removes a node
    for any unsuccessful status, for longer with each request that was in flight, then returns it to all requests at
    once.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the options of the client's own pool; the nodes are ReadingNodes, and none is added later."""
        super().__init__(*args, **options)
        self._nodes = cast("list[ReadingNode]", self.all())
        for node in self._nodes:
            node.health.others = [other.health for other in self._nodes if other is not node]

    def get(self) -> ReadingNode:
        """Return the node for the next request; failed or silent ones only if there are no others."""
        return self._nodes[0] if len(self._nodes) == 1 else min(self._nodes, key=_rank)

    def mark_dead(self, node: BaseNode, _now: float | None = None) -> None:
        """Do nothing: nodes track their own health."""

    def mark_live(self, node: BaseNode) -> None:
        """Do nothing: nodes track their own health."""


def _rank(node: ReadingNode) -> tuple[int, int, float]:
    """Return the sort key of a node, with random tie-breaking; the lowest is selected."""
    return node.health.penalty, len(node.health.in_flight), random()  # noqa: S311 - not a secret
