"""`/companies` and `/companies/{platform_company_id}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marshmallow import Schema

from mappings import COMPANY
from service.operation import Call, Operation
from service.parameters.groups import WholeOrNumbered
from service.query import either, identified, term
from service.resources.records import show
from service.resources.wholes import small_collection

if TYPE_CHECKING:
    from aiohttp import web


class CompaniesParameters(WholeOrNumbered):
    """Parameters of the companies index."""


class CompanyParameters(Schema):
    """The company show has no query parameters."""


async def list_companies(call: Call) -> web.Response:
    """Answer the companies that the key may read as a JSON array."""
    return await small_collection(call, COMPANY)


async def show_company(call: Call) -> web.Response:
    """Answer one company, by its key or its numeric id."""
    company = call.path["platform_company_id"]
    clause = either(identified(company), term("numeric_id", company))
    return await show(call, COMPANY, "platform_company_id", clause)


OPERATIONS = (
    Operation("/companies", CompaniesParameters(), list_companies),
    Operation("/companies/{platform_company_id}", CompanyParameters(), show_company),
)
