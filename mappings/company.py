"""Company (spec, Resources and their fields)."""

from mappings.fields import boolean, nested, string
from mappings.resource import Resource
from mappings.search_fields import envelope_keyword, keyword

COMPANY = Resource(
    name="Company",
    alias="companies",
    identifier="platform_company_id",
    fields=(
        string("platform_company_id", "Alphanumeric key, similar to the company name."),
        string("name", "Human-readable."),
        string("numeric_id", "Interchangeable with the alphanumeric key wherever a company id is accepted."),
        string("client_company_id"),
        nested("public_partner_attrs", boolean("is_nrt"), object_name="PublicPartnerAttributes"),
    ),
    search_fields=(keyword("numeric_id"), envelope_keyword("parent_company_id")),
    envelope_members=frozenset({"parent_company_id"}),
)
