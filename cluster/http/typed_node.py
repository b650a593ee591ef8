"""The node class of the indexer and the commands: the client's own, with `TlsContext` and better TLS errors."""

import asyncio
import ssl
from typing import Any

from aiohttp import ClientConnectorError
from elastic_transport import (
    AiohttpHttpNode,
    ConnectionError,  # noqa: A004 - the client's name for it
    ConnectionTimeout,
    HttpHeaders,
    TlsError,
)
from elastic_transport._node import NodeApiResponse
from elastic_transport.client_utils import DEFAULT

from cluster.tls import TlsContext, describe_tls_error

# A host that is down drops packets silently.
_HANDSHAKE_SECONDS = 10.0


class NotSentError(ConnectionError):
    """A node accepted no connection, so that it has not seen the request."""


class TypedNode(AiohttpHttpNode):
    """A node for typed calls that resolves the configured fingerprint before its first request."""

    async def perform_request(  # type: ignore[override]
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: HttpHeaders | None = None,
        request_timeout: Any = DEFAULT,
    ) -> NodeApiResponse:
        """Return the complete response; raise the transport's errors, with a remedy in those of TLS."""
        await self._resolve_fingerprint()
        try:
            return await super().perform_request(method, target, body, headers, request_timeout)
        except TlsError as error:
            raise self._tls_error(error, error.errors) from None
        except ConnectionError as error:
            for cause in error.errors:
                if isinstance(cause, ClientConnectorError):
                    raise self._not_sent_error(cause, error.errors) from None
            raise

    async def _resolve_fingerprint(self) -> None:
        if not isinstance(self._ssl_context, TlsContext):
            return
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                await self._ssl_context.resolve_fingerprint(self.host, self.port)
        except ssl.SSLError as error:
            raise self._tls_error(error, (error,)) from None
        except TimeoutError as error:
            raise ConnectionTimeout("The host does not accept connections.", errors=(error,)) from None
        except OSError as error:
            raise ConnectionError(str(error), errors=(error,)) from None

    def _not_sent_error(self, cause: ClientConnectorError, causes: tuple[Exception, ...]) -> NotSentError:
        # The text of aiohttp mentions ssl, whatever the scheme.
        reason = cause.os_error.strerror or cause.os_error
        return NotSentError(f"{self.host}:{self.port} accepts no connection ({reason})", errors=causes)

    def _tls_error(self, error: Exception, causes: tuple[Exception, ...]) -> TlsError:
        sentences = (describe_tls_error(_innermost(cause), self._ssl_context, self.host) for cause in causes)
        return TlsError(next(filter(None, sentences), str(error)), errors=causes)


def _innermost(error: Exception) -> Exception:
    """Return the error of OpenSSL, which aiohttp wraps."""
    nested = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    return nested if isinstance(nested, ssl.SSLError) else error
