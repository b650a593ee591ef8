"""Errors of the RESO Web API alone: unsupported options, and events that are no longer available."""

from __future__ import annotations

from service.errors import ApiError, ParameterFault


class OptionNotImplemented(ApiError):
    """An OData feature that this service does not implement."""

    status = 501
    code = "not-implemented"
    title = "Not implemented"

    def __init__(self, parameter: str, what: str) -> None:
        """Name the option and the unsupported feature."""
        fault = ParameterFault(parameter, f"{what} is not implemented by this service.")
        super().__init__(str(fault), (fault,))


class EventsForgotten(ApiError):
    """The events after a number are incomplete: some deletions are no longer stored."""

    status = 410
    code = "events-forgotten"
    title = "Events forgotten"

    def __init__(self, horizon: int, end: int) -> None:
        """Report the last number without its deletions, and the number to restart from."""
        fault = ParameterFault(
            "$filter",
            f"deletions up to EntityEventSequence {horizon} are no longer available: reload all records, then continue "
            f"after {end}, the last number before the reload.",
        )
        super().__init__(str(fault), (fault,))
