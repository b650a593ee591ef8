"""Faults of several steps of a request, reported together."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import InvalidRequest, ParameterFault


class CollectedFaults:
    """The faults of invalid parameters that several steps have found."""

    def __init__(self) -> None:
        """Start without faults."""
        self._faults: list[ParameterFault] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Keep the faults of an InvalidRequest that the step raises."""
        try:
            yield
        except InvalidRequest as error:
            self._faults += error.faults

    def raise_any(self) -> None:
        """Raise InvalidRequest with all faults, if there are any."""
        if self._faults:
            raise InvalidRequest(*self._faults)
