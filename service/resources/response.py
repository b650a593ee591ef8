"""Responses of the contract's operations: their base class, and the envelopes around records.

An operation declares its response, `Operation("/offices", OfficesParameters(), PageResponse(OFFICE))`. The declaration
both serves requests and describes the operation in the OpenAPI document.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from aiohttp import web
from marshmallow import Schema

from mappings.casing import underscore
from mappings.fields import View
from mappings.resource import Resource
from service.operation import Operation
from service.request_context import UNDERSCORE_PARAMETER, RequestContext
from service.resources.filters import FilterRule
from service.scope import COMPANY_PARAMETER, PARENT_PARAMETER

BRIEF = "timestamps_only"
ENVELOPE = "envelope"
UPDATED_SINCE = "updated_since"


class Envelope(Enum):
    """The JSON around the records of a body."""

    NONE = "none"  # the record alone
    ARRAY = "array"
    NUMBERED_PAGE = "numbered page"  # {page_number, total_pages, <alias>}
    WALK_PAGE = "walk page"  # {FinalPage, Listings}


@dataclass(frozen=True)
class ResourceResponse(ABC):
    """The response of an operation on one resource. `rules` are filters in addition to the parameters' clauses."""

    resource: Resource
    rules: tuple[FilterRule, ...] = ()
    view: ClassVar[View] = View.INDEX
    own_parameters: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    async def __call__(self, call: RequestContext) -> web.Response:
        """Return the response to an accepted request; raise ApiError."""

    @abstractmethod
    def envelopes(self, schema: Schema) -> tuple[Envelope, ...]:
        """Return the envelopes that the parameters can select, the default first."""

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters for scope, paging and record form, which need no clause."""
        return (
            self.own_parameters
            | {COMPANY_PARAMETER, PARENT_PARAMETER, UNDERSCORE_PARAMETER}
            | self.resource.flags(self.view).keys()
        )

    @property
    def operation_id(self) -> str:
        """The name of the operation in generated clients, such as `list_offices`."""
        if self.view is View.SHOW:
            return f"show_{underscore(self.resource.name)}"
        return f"list_{self.resource.alias}"

    @property
    def summary(self) -> str:
        """The summary of the operation, without a full stop."""
        if self.view is View.SHOW:
            return f"Get {'an' if self.resource.title[0] in 'aeiou' else 'a'} {self.resource.title}"
        return f"List {self.resource.alias.replace('_', ' ')}"


def response_of(operation: Operation) -> ResourceResponse:
    """Return the response of an operation of the contract; raise TypeError for one of the feed."""
    if not isinstance(operation.handler, ResourceResponse):
        raise TypeError(f"{operation.path} does not return records of one resource")
    return operation.handler
