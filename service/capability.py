"""A capability: what a deployment may leave out (`BROKERAGE_WITHOUT`), in the form in which the core runs it.

Each is one folder or module that knows the core; the core does not know it, and none imports another. Its state is
provided to `Services` by `open` and found there by its type. `service.capabilities` names them all.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from service.health.checks import Finding
from service.http.problems import ErrorFormat
from service.http.requests import RequestAdapter
from service.operation import Operation
from service.resources.responses import RecordFormat
from service.services import Services
from service.settings import CapabilitySettings, ServiceSettings
from service.telemetry.logs import RequestListener
from service.telemetry.observation import Tracing


class CatalogEntry(NamedTuple):
    """An API in the catalog of APIs (RFC 9727): its root and description below the root of the API, and its page."""

    path: str
    description: str
    media_type: str
    page: str


# A part of a text that stays with any of the capabilities that it names; parts may contain others.
_PART = re.compile(r"<!-- with ([a-z ]+) -->((?:(?!<!-- with ).)*?)<!-- end -->", re.DOTALL)


def text_with(installed: Collection[str], text: str) -> str:
    """Return a text without the parts about what is not installed, and without the marks of the others."""
    count = 1
    while count:
        text, count = _PART.subn(lambda part: "" if {*installed}.isdisjoint(part[1].split()) else part[2], text)
    return text


@dataclass(frozen=True)
class Surface:
    """What a deployment serves: what routes beside the operations describe, such as the documentation."""

    root: str  # of the API
    settings: ServiceSettings
    capabilities: tuple["Capability", ...]
    paths: tuple[str, ...]  # of the operations that have problem documents, from the root of the host

    @cached_property
    def adapter(self) -> RequestAdapter:
        """What takes the requests of clients that expect another API."""
        return next(
            (capability.adapter(self) for capability in self.capabilities if capability.adapter), RequestAdapter()
        )


class Check(NamedTuple):
    """What `brokerage doctor` checks: the subject of its finding; None where there is nothing to say."""

    subject: str
    run: Callable[[Services], Awaitable[Finding | None]]
    needs_elasticsearch: bool = True


@dataclass(frozen=True)
class Capability:
    """What a capability adds to the core; everything is optional.

    `open` runs while the service does, around its requests; what it provides to the services is found by its type.
    """

    name: str
    settings: type[CapabilitySettings] | None = None
    operations: tuple[Operation, ...] = ()  # below the root of the API
    errors: ErrorFormat | None = None  # of the paths that do not fail with problem documents
    routes: Callable[[Surface], Mapping[tuple[str, str], Handler]] | None = None  # by method and path template
    adapter: Callable[[Surface], RequestAdapter] | None = None
    second_root: str = ""  # of all operations that have problem documents
    formats: tuple[RecordFormat, ...] = ()
    listens: Callable[[Services], RequestListener] | None = None  # to the end of every request
    open: Callable[[Services], AbstractAsyncContextManager[None]] | None = None
    checks: tuple[Check, ...] = ()
    tracing: Callable[[Mapping[str, str]], Tracing | None] | None = None  # from the environment
    # Adds to the application on the port of metrics, the second, what it shows of the service, the first.
    operators: Callable[[web.Application, web.Application], None] | None = None
    schemas: str = ""  # the module with its part of the OpenAPI document, imported with it
    document: str = ""  # the module with the OpenAPI document, of which the reference is made
    tables: str = ""  # the module with generated parts of its pages, by placeholder, imported with them
    catalog: CatalogEntry | None = None  # an API of its own in the catalog of APIs
    pages: tuple[str, ...] = ()  # of `/docs`, which are about it alone
