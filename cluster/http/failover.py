"""The transport of the indexer and the commands: what a node that is gone could not take goes to another one.

The client's own retries are switched off, as they repeat everything, and without a pause. A node that is restarted must
not end a load, though, so what is harmless to repeat is repeated. A single node has nothing to fail over to.
"""

import asyncio
from typing import Any

from elastic_transport import AsyncTransport, ConnectionError, TlsError, TransportApiResponse  # noqa: A004 - the client's name for it

from cluster.http.typed_node import NotSentError

_READS = ("/_search", "/_mget")
# Statuses while the shards of a node that is gone become available on others, and the pauses: 8 s altogether.
_PASSING = frozenset({502, 503})
_PAUSES_SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0)


class FailoverTransport(AsyncTransport):
    """Sends a request to one node after the other while they refuse connections, or break them during a read.

    A read that needs what a lost node had is repeated, too, for some seconds.
    """

    async def perform_request(self, method: str, target: str, **options: Any) -> TransportApiResponse:  # type: ignore[override]
        """Return the response; raise the transport's errors."""
        response = await self._fail_over(method, target, **options)
        if len(self.node_pool) > 1 and _is_read(method, target):
            for pause in _PAUSES_SECONDS:
                if response.meta.status not in _PASSING:
                    break
                await asyncio.sleep(pause)
                response = await self._fail_over(method, target, **options)
        return response

    async def _fail_over(self, method: str, target: str, **options: Any) -> TransportApiResponse:
        """Send a request, at most once to each node: the pool avoids one that has failed."""
        for _ in range(len(self.node_pool) - 1):
            try:
                return await super().perform_request(method, target, **options)
            except ConnectionError as error:
                if isinstance(error, TlsError) or not (isinstance(error, NotSentError) or _is_read(method, target)):
                    raise
        return await super().perform_request(method, target, **options)


def _is_read(method: str, target: str) -> bool:
    return method in {"GET", "HEAD"} or target.partition("?")[0].endswith(_READS)
