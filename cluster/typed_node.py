"""How the indexer and the commands reach a node: the client's own node handling, with our trust in certificates."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

from elastic_transport import (
    AiohttpHttpNode,
    ConnectionError,  # noqa: A004 - the client's name for it
    ConnectionTimeout,
    HttpHeaders,
    TlsError,
)
from elastic_transport.client_utils import DEFAULT

from cluster.trust import Trust, told

if TYPE_CHECKING:
    from elastic_transport._node import NodeApiResponse

# A host that is gone swallows what is sent to it.
_LOOK_SECONDS = 10.0


class TypedNode(AiohttpHttpNode):
    """A node for typed calls, which looks for the certificate of a fingerprint before its first request."""

    async def perform_request(  # type: ignore[override]
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: HttpHeaders | None = None,
        request_timeout: Any = DEFAULT,
    ) -> NodeApiResponse:
        """Return the whole answer; raise the transport's errors, those of TLS with what to change."""
        await self._learn()
        try:
            return await super().perform_request(method, target, body, headers, request_timeout)
        except TlsError as error:
            raise self._told(error, error.errors) from None

    async def _learn(self) -> None:
        if not isinstance(self._ssl_context, Trust):
            return
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._ssl_context.learn(self.host, self.port)
        except ssl.SSLError as error:
            raise self._told(error, (error,)) from None
        except TimeoutError as error:
            raise ConnectionTimeout("The host does not take connections.", errors=(error,)) from None
        except OSError as error:
            raise ConnectionError(str(error), errors=(error,)) from None

    def _told(self, error: Exception, causes: tuple[Exception, ...]) -> TlsError:
        sentences = (told(_innermost(cause), self._ssl_context, self.host) for cause in causes)
        return TlsError(next(filter(None, sentences), str(error)), errors=causes)


def _innermost(error: Exception) -> Exception:
    """Return what OpenSSL said, which the client of HTTP wraps in errors that look the same."""
    nested = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    return nested if isinstance(nested, ssl.SSLError) else error
