"""What only the RESO Web API answers with: what it does not do, and events that are no longer told."""

from __future__ import annotations

from service.errors import ApiError, Fault


class NotImplementedHere(ApiError):
    """Something that OData knows and this service does not do."""

    status = 501
    code = "not-implemented"
    title = "Not implemented"

    def __init__(self, parameter: str, what: str) -> None:
        """Name the option and what of it is not done."""
        fault = Fault(parameter, f"{what} is not implemented by this service.")
        super().__init__(str(fault), (fault,))


class EventsForgotten(ApiError):
    """What happened since a number cannot be told any more: deletions among it are no longer kept."""

    status = 410
    code = "events-forgotten"
    title = "Events forgotten"

    def __init__(self, horizon: int, end: int) -> None:
        """Say up to which number deletions are gone, and where to begin anew."""
        fault = Fault(
            "$filter",
            f"deletions up to EntityEventSequence {horizon} are no longer kept: load all records anew and go on "
            f"behind {end}, the last number before that.",
        )
        super().__init__(str(fault), (fault,))
