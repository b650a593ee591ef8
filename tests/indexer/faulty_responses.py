"""Faults that are put into real responses of Elasticsearch."""

from collections.abc import Callable
from typing import Any

import pytest
from elasticsearch import AsyncElasticsearch

Fault = Callable[[dict[str, Any]], None]


class FaultyResponses:
    """Changes the first responses to requests whose path has an ending."""

    def __init__(self, client: AsyncElasticsearch, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen = 0
        self._send = client.transport.perform_request
        self._ending, self._faults = "", list["Fault"]()
        monkeypatch.setattr(client.transport, "perform_request", self._changed)

    def change(self, ending: str, *faults: Fault) -> None:
        """Let each fault change one response."""
        self._ending, self._faults = ending, [*faults]

    async def _changed(self, method: str, target: str, **given: Any) -> Any:
        response = await self._send(method, target, **given)
        if target.partition("?")[0].endswith(self._ending):
            self.seen += 1
            if self._faults:
                self._faults.pop(0)(response.body)
        return response
