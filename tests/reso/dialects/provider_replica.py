"""A replication from a provider's server by the command, with the profile and the settings that its guide names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.reso.client.limits import SourceLimits
from tests.reso.dialects.providers import PROVIDERS
from tests.reso.replica_process import ReplicaProcess

if TYPE_CHECKING:
    from pathlib import Path

    from tests.indexer.conftest import Bench
    from tests.reso.server.reso_server import ResoServer


# What follows from a limit is waiting, up to a minute at a time.
_WITHOUT_LIMITS = "[dialect.limits]\n" + "".join(f"{name} = 0\n" for name in SourceLimits.__struct_fields__)


class ProviderReplica(ReplicaProcess):
    """The replication of one provider's server into one bench."""

    def __init__(self, name: str, bench: Bench, server: ResoServer, folder: Path, *, is_limited: bool = False) -> None:
        """Take the credentials and options of a provider, without the limits of its profile unless `is_limited`."""
        self.provider, self._profile = PROVIDERS[name], name
        given = dict(self.provider.client)
        if server.settings.client is not None:
            given["BROKERAGE_RESO_TOKEN_URL"] = server.token_url
        given |= {"BROKERAGE_RESO_PAGE_SIZE": "1000", "BROKERAGE_RESO_VERIFY_HOURS": "0"}
        super().__init__(bench, server, folder, given, changes="auto")
        if not is_limited:
            self.map_text += _WITHOUT_LIMITS

    async def run(self, *options: str) -> int:
        """Run one command to its end; return its exit code, negative for a signal."""
        return await super().run("--profile", self._profile, *self.provider.options, *options)
