"""The view of a key without restrictions on one company: what its snapshot has, files have."""

from multidict import CIMultiDict
from yarl import URL

from service.feed.parameters import FeedFilters
from service.feed.view import FeedView
from service.limits.admission import RequestKind
from service.request_context import RequestContext
from service.scope import CompanyDirectory, Scope
from service.services import Services
from service.telemetry.timing import Timer


def company_view(services: Services, directory: CompanyDirectory, company: str) -> FeedView:
    """Return the view; no request of a client is behind it, so nothing is audited, limited or withheld."""
    schema = FeedFilters()
    parameters = schema.load({})
    call = RequestContext(
        services,
        Timer(),
        Scope(frozenset({company})),
        directory,
        schema,
        parameters,
        path={},
        url=URL(),
        headers=CIMultiDict(),
        withheld=frozenset(),
        slot=services.admission.lane(RequestKind.SNAPSHOT).slot(""),
    )
    return FeedView(call)
