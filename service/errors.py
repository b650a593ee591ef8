"""What can go wrong in a request: each error is one problem document (`/docs/problems`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import cycle
from typing import Self

from cluster.terminal import counted

# The faults in one response; a client that corrects so many sees the rest with its next request.
MAX_FAULTS = 10
# Characters of a parameter's name that a response repeats: the longest known name has about 30.
MAX_NAME_LENGTH = 64
# Seconds, used in rotation: clients that were refused together do not retry together.
_RETRY_AFTER = cycle(("1", "2", "3"))


@dataclass(frozen=True)
class ParameterFault:
    """One problem with one parameter."""

    parameter: str
    message: str

    @classmethod
    def of_sent(cls, name: str, message: str) -> Self:
        """Return the fault of a name that the client chose, shortened if no parameter has so long a name."""
        return cls(name if len(name) <= MAX_NAME_LENGTH else f"{name[:MAX_NAME_LENGTH]}…", message)

    def __str__(self) -> str:
        return f"{self.parameter}: {self.message}"


class ApiError(Exception):
    """A refusal or failure: a kind of problem document; subclasses declare its status, code and title."""

    status = 500
    code = "internal-error"
    title = "Internal error"

    def __init_subclass__(cls, status: int | None = None, code: str = "", title: str = "") -> None:
        super().__init_subclass__()
        cls.status, cls.code, cls.title = status or cls.status, code or cls.code, title or cls.title

    def __init__(
        self, detail: str, faults: Sequence[ParameterFault] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.faults = tuple(faults)
        self.headers = dict(headers or {})

    @property
    def messages(self) -> list[str]:
        """The sentences of the detail, one for each fault."""
        return list(map(str, self.faults)) or [self.detail]


class InternalError(ApiError):
    """A defect of the service; the response never says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "The request failed because of a defect in the service. Quote the request id when you report it."
        )
        self.reason = reason


class ParameterError(ApiError):
    """Refused parameters, the first `MAX_FAULTS` of them at once."""

    def __init__(self, *faults: ParameterFault) -> None:
        self._rest = (
            [f"Not listed: {counted(len(faults) - MAX_FAULTS, 'more fault')}."] if len(faults) > MAX_FAULTS else []
        )
        listed = faults[:MAX_FAULTS]
        super().__init__(" ".join([*map(str, listed), *self._rest]), listed)

    @property
    def messages(self) -> list[str]:
        """The sentences of the detail: one for each listed fault, and how many more there are."""
        return [*super().messages, *self._rest]

    @classmethod
    def of(cls, parameter: str, message: str) -> Self:
        return cls(ParameterFault(parameter, message))


class InvalidRequest(ParameterError, status=400, code="invalid-parameter", title="Invalid parameter"):
    """One or more parameters are invalid."""


class Unauthorized(ApiError, status=401, code="unauthorized", title="Unauthorized"):
    """No usable API key."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": 'ApiKey realm="brokerage"'})


class Forbidden(ParameterError, status=403, code="forbidden", title="Forbidden"):
    """The key may not read what the parameter names."""


class NotFound(ApiError, status=404, code="not-found", title="Not found"):
    """No such record within the request's scope, or no such path."""


class MethodNotAllowed(ApiError, status=405, code="method-not-allowed", title="Method not allowed"):
    """The path exists, the method does not."""


class HttpError(ApiError, status=400, code="refused", title="Refused"):
    """The HTTP layer refuses the request as it stands, with a status of its own."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status, self.title = status, status.phrase


class EngineUnavailable(ApiError, status=503, code="temporarily-unavailable", title="Temporarily unavailable"):
    """Elasticsearch is unreachable, overloaded, or returned only part of a result."""

    def __init__(self, reason: str) -> None:
        """Take the reason for the log; the response says only when to retry."""
        super().__init__("The search engine is not available. Try again shortly.", headers={"Retry-After": "2"})
        self.reason = reason


class Overloaded(ApiError, status=503, code="overloaded", title="Overloaded"):
    """The service is at its concurrency limit; nothing was done for this request."""

    def __init__(self) -> None:
        """Set a `Retry-After` that differs between requests."""
        super().__init__(
            "The service is handling as many requests as it can. Try again shortly.",
            headers={"Retry-After": next(_RETRY_AFTER)},
        )


class NotElasticsearch(EngineUnavailable):
    """The server at the cluster's address is not Elasticsearch."""

    def __init__(self) -> None:
        super().__init__("The server at the cluster's address is not Elasticsearch.")


class ResourceUnavailable(ApiError, status=503, code="temporarily-unavailable", title="Temporarily unavailable"):
    """The index of a resource is unusable; `service.health.monitor` logs the reason once, when it finds it."""

    def __init__(self, title: str) -> None:
        """Take the resource's name as in a sentence, for example `sold listing`."""
        detail = f"The {title} index is being rebuilt and is temporarily unavailable. Try again shortly."
        super().__init__(detail, headers={"Retry-After": "2"})


class NotLoaded(ApiError, status=503, code="not-loaded", title="Not loaded"):
    """Nothing was ever loaded, of any resource. One that alone was never loaded is empty (decision 58)."""

    def __init__(self) -> None:
        """Name the command that loads the first data."""
        super().__init__(
            "Nothing has been loaded into this service yet. Its operator loads data with "
            "`brokerage index reindex SOURCE`.",
            headers={"Retry-After": "60"},
        )


class RebuildDue(EngineUnavailable):
    """The live index lacks a search field that the request uses, because it was declared after the last rebuild."""

    def __init__(self, resource: str = "", reason: str = "") -> None:
        """Name the rebuild command; `resource` is an alias, empty if unknown, `reason` is for the log."""
        super().__init__(reason)
        command = " ".join(("brokerage index reindex SOURCE", *filter(None, [resource])))
        self.detail = (
            "This request uses a search field that the live index was built without. "
            f"It is served once the operator has rebuilt it: `{command}`."
        )
        self.headers["Retry-After"] = "60"


class DataReplaced(EngineUnavailable):
    """The data were restored or replaced, and the indexer has not begun a new epoch of them yet (decision 18)."""

    def __init__(self) -> None:
        """Name the command; `service.health.monitor` logs the reason once, when it finds it."""
        super().__init__("The data were restored or replaced outside the indexer.")
        self.detail = (
            "The data were restored from a backup or replaced. Changes, snapshots and digests continue after the next "
            "update, or after `brokerage index restored`."
        )
        self.headers["Retry-After"] = "30"


class DeadlineExceeded(ApiError, status=504, code="deadline-passed", title="Deadline passed"):
    """The request exceeded its deadline."""

    def __init__(self) -> None:
        super().__init__("The request took too long. Try again, or request less data.", headers={"Retry-After": "2"})
