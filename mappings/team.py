"""Team (spec, Resources and their fields)."""

from mappings.fields import boolean, string, strings_named, untyped
from mappings.resource import Resource

TEAM = Resource(
    name="Team",
    alias="teams",
    identifier="uuid",
    fields=(
        *strings_named("uuid", "name", "email", "alt_email", "address1", "address2", "city", "zipcode", "state"),
        *strings_named("phone", "fax", "alt_phone", "logo_url", "photo_url", "website_url"),
        string("description", "May be empty."),
        boolean("active"),
        untyped("social_media_urls"),
    ),
)
