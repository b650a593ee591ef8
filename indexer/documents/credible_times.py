"""The times of an envelope must have passed: later ones would freeze a record, or repeat it in every poll."""

import datetime as dt
from typing import Any

from indexer.clock import latest_microseconds
from indexer.documents.envelope import epoch_microseconds
from indexer.errors import InvalidRecordError
from mappings import Resource

_TIMES = ("deactivated_at", "shared_partner_data_updated_at")


class CredibleTimes:
    """Checks the times of one resource's envelopes against this host's clock."""

    def __init__(self, resource: Resource, future_seconds: float) -> None:
        """Select the times that the resource's envelopes have; `future_seconds` is BROKERAGE_FUTURE_SECONDS."""
        self._names = ("updated_at", *(name for name in _TIMES if name in resource.envelope_members))
        self._future_seconds = future_seconds

    def check(self, envelope: Any) -> None:
        """Raise InvalidRecordError for a time that is further ahead than a mislabelled time zone explains."""
        latest = latest_microseconds(self._future_seconds)
        for name in self._names:
            time = getattr(envelope, name)
            if time is not None and epoch_microseconds(time) > latest:
                raise InvalidRecordError(name, self._reason(time))

    def _reason(self, time: dt.datetime) -> str:
        stated = time.isoformat(timespec="seconds")
        return (
            f"is {stated}, more than {self._future_seconds:g} s (BROKERAGE_FUTURE_SECONDS) ahead of this host's clock: "
            "correct the time at the source and send the record again"
        )
