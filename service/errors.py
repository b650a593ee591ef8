"""What can go wrong, each with its status, stable code and title (decisions, Errors)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from http import HTTPStatus

# Seconds, in turn: who was refused together does not come back together.
_RETRY_AFTER = cycle(("1", "2", "3"))


@dataclass(frozen=True)
class Fault:
    """One problem with one parameter."""

    parameter: str
    message: str

    def __str__(self) -> str:
        """Return the sentence for people."""
        return f"{self.parameter}: {self.message}"


class ApiError(Exception):
    """An answer that is not a record; subclasses fix status, code and title."""

    status = 500
    code = "internal-error"
    title = "Internal error"

    def __init__(self, detail: str, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None) -> None:
        """Keep the sentence for people, the faults of parameters and further response headers."""
        super().__init__(detail)
        self.detail = detail
        self.faults = tuple(faults)
        self.headers = dict(headers or {})


class InternalError(ApiError):
    """A defect of the service; the answer never says which."""

    def __init__(self, reason: str) -> None:
        """Keep the reason for the log."""
        super().__init__("The request could not be answered. Quote the request id when you report it.")
        self.reason = reason


class ParameterError(ApiError):
    """Parameters that are refused, all of them at once."""

    def __init__(self, *faults: Fault) -> None:
        """Say what is wrong with each."""
        super().__init__("; ".join(map(str, faults)), faults)

    @classmethod
    def of(cls, parameter: str, message: str) -> Self:
        """Refuse one parameter."""
        return cls(Fault(parameter, message))


class InvalidRequest(ParameterError):
    """One or several parameters cannot be used."""

    status = 400
    code = "invalid-parameter"
    title = "Invalid parameter"


class Unauthorized(ApiError):
    """No usable API key."""

    status = 401
    code = "unauthorized"
    title = "Unauthorized"

    def __init__(self, detail: str) -> None:
        """Say how to authenticate."""
        super().__init__(detail, headers={"WWW-Authenticate": 'ApiKey realm="brokerage"'})


class Forbidden(ParameterError):
    """The key may not read what the parameter names."""

    status = 403
    code = "forbidden"
    title = "Forbidden"


class NotFound(ApiError):
    """No such record within the request's scope, or no such path."""

    status = 404
    code = "not-found"
    title = "Not found"


class MethodNotAllowed(ApiError):
    """The path exists, the method does not."""

    status = 405
    code = "method-not-allowed"
    title = "Method not allowed"


class Refused(ApiError):
    """The HTTP layer refuses the request as it stands, with a status of its own."""

    status = 400
    code = "refused"
    title = "Refused"

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        """Take the status, whose phrase is the title."""
        super().__init__(detail)
        self.status, self.title = status, status.phrase


class EngineUnavailable(ApiError):
    """Elasticsearch is away, overloaded, or could not answer whole."""

    status = 503
    code = "temporarily-unavailable"
    title = "Temporarily unavailable"

    def __init__(self, reason: str) -> None:
        """Keep the reason for the log; the answer says only when to come back."""
        super().__init__("The search engine is not available. Try again shortly.", headers={"Retry-After": "2"})
        self.reason = reason


class Overloaded(ApiError):
    """More is asked for than can be answered at a time; nothing was done for this request."""

    status = 503
    code = "overloaded"
    title = "Overloaded"

    def __init__(self) -> None:
        """Ask for a later attempt."""
        super().__init__(
            "More is asked for than can be answered at a time. Try again shortly.",
            headers={"Retry-After": next(_RETRY_AFTER)},
        )


class NotElasticsearch(EngineUnavailable):
    """Something else answers under the cluster's address."""

    def __init__(self) -> None:
        """Say so in the log."""
        super().__init__("What answers under the cluster's address is not Elasticsearch.")


class ResourceUnavailable(ApiError):
    """The index of a resource is not one to answer from: why is logged once, when it is found (`service.watch`)."""

    status = 503
    code = "temporarily-unavailable"
    title = "Temporarily unavailable"

    def __init__(self, title: str) -> None:
        """Name the resource in a sentence, for example `sold listing`."""
        detail = f"The {title} index is being rebuilt and is temporarily unavailable. Try again shortly."
        super().__init__(detail, headers={"Retry-After": "2"})


class DeadlinePassed(ApiError):
    """The answer was not there in time."""

    status = 504
    code = "deadline-passed"
    title = "Deadline passed"

    def __init__(self) -> None:
        """Ask for a later attempt."""
        super().__init__("The answer took too long. Try again, or ask for less.", headers={"Retry-After": "2"})
