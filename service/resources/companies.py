"""`/companies` and `/companies/{platform_company_id}`."""

from marshmallow import Schema

from mappings import COMPANY
from service.operation import Operation
from service.parameters.groups import OptionalPaging
from service.resources.responses import CollectionResponse, RecordResponse


class CompaniesParameters(OptionalPaging):
    """Parameters of the companies index."""


class CompanyParameters(Schema):
    """The company show has no query parameters."""


OPERATIONS = (
    Operation("/companies", CompaniesParameters(), CollectionResponse(COMPANY)),
    Operation(
        "/companies/{platform_company_id}", CompanyParameters(), RecordResponse(COMPANY, alternative="numeric_id")
    ),
)
