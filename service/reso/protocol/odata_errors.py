"""Errors of the RESO Web API alone: unsupported options, and events that are no longer available."""

from service.errors import ApiError, ParameterFault


class OptionNotImplemented(ApiError):
    """An OData feature that this service does not implement."""

    status = 501
    code = "not-implemented"
    title = "Not implemented"

    def __init__(self, parameter: str, what: str, advice: str = "") -> None:
        """Name the option, the unsupported feature and, in a sentence, what to do instead."""
        fault = ParameterFault(parameter, f"{what} is not implemented by this service. {advice}".strip())
        super().__init__(str(fault), (fault,))


class EventsForgotten(ApiError):
    """The events after a number are incomplete: some deletions are not stored any more, or other data are served."""

    status = 410
    code = "events-forgotten"
    title = "Events forgotten"

    def __init__(self, start: int, horizon: int, end: int) -> None:
        """Report the number that cannot be continued from, and the one to restart from."""
        known = f"deletions up to EntityEventSequence {horizon} are no longer available"
        reason = known if start < horizon else f"EntityEventSequence {start} is not a number of the present data"
        fault = ParameterFault(
            "$filter", f"{reason}: reload all records, then continue after {end}, the last number before the reload."
        )
        super().__init__(str(fault), (fault,))
