"""Office (spec, Resources and their fields)."""

from mappings.fields import strings, strings_named, untyped_named
from mappings.resource import Resource
from mappings.search_fields import envelope_doc_value, envelope_timestamp

OFFICE = Resource(
    name="Office",
    alias="offices",
    identifier="platform_office_id",
    fields=(
        *strings_named("platform_office_id", "id", "client_office_id", "image_url", "name", "common_name", "address"),
        *strings_named("city", "county", "state", "zip_code", "alt_phone", "phone", "email", "timezone"),
        *strings_named("office_website", "region"),
        *strings_named("mailing_address", "mailing_address2", "mailing_city", "mailing_zip", "mailing_state"),
        strings("company_programs"),
        *strings_named("logo_url"),
        *untyped_named("address2", "social_network", "social_plus", "microblog"),
    ),
    search_fields=(
        envelope_timestamp("deactivated", "deactivated_at"),
        envelope_doc_value("modified", "updated_at"),
    ),
    timestamps={"platform_office_id": "id"},
    envelope_members=frozenset({"deactivated_at"}),
)
