"""Agents, offices, teams and companies (spec, Resources and their fields; flags after decisions, Parameters)."""

from mappings.fields import (
    INDEX_ONLY,
    SHOW_ONLY,
    boolean,
    date_time,
    integer,
    nested,
    number,
    objects,
    reference,
    string,
    strings,
    strings_named,
    unix,
    untyped,
    untyped_list,
    untyped_named,
    uuid,
)
from mappings.resource import Resource
from mappings.search_fields import (
    doc_value,
    element_count,
    envelope_doc_value,
    envelope_keyword,
    envelope_timestamp,
    keyword,
    keyword_with_doc_values,
    presence,
)

_OFFICE_ADDRESS = tuple(f"office_address_{part}" for part in ("street", "city", "state", "zip"))
_MAILING_ADDRESS = tuple(f"office_mailing_address_{part}" for part in ("street", "city", "state", "zip"))

AGENT = Resource(
    name="Agent",
    alias="agents",
    identifier="agent_uuid",
    fields=(
        reference("platform_agent_id"),
        uuid("agent_uuid"),
        *strings_named("uuid", "client_id_2", "social_network_account_id"),
        *strings_named("license", "mls_name", "mls_abbreviation"),
        objects(
            "available_mls",
            *strings_named("name", "display_name", "mls_abbreviation"),
            untyped("agent_id"),
            object_name="AvailableMls",
        ),
        reference("platform_office_id"),
        integer("office_id"),
        *strings_named("office_name", "client_office_id"),
        integer("company_id"),
        string("client_company_id"),
        *strings_named(*_OFFICE_ADDRESS, *_MAILING_ADDRESS),
        *strings_named("main_phone_number", "office_phone_number"),
        *strings_named("primary_email_address", "secondary_email_address"),
        nested(
            "email_addresses",
            *strings_named("primary", "display", "alternate", "platform_sync"),
            *untyped_named("portal", "lead_routing"),
            object_name="EmailAddresses",
        ),
        string("title"),
        boolean("has_product_access"),
        boolean("has_engage_access"),
        string("access_level").on_request("include_access_level").guarded("access_level"),
        string("view_level").on_request("include_access_level").guarded("access_level"),
        *strings_named("home_page", "profile_image_url", "profile_thumb_url", "region"),
        nested("agent_website", *untyped_named("base_url", "bio_page_slug"), object_name="AgentWebsite"),
        objects(
            "source_metadata",
            *strings_named("identifier_source", "identifier_type"),
            untyped("identifier_key"),
            object_name="SourceMetadata",
        ),
        unix("created_timestamp"),
        unix("last_updated_timestamp").update_time(),
        unix("last_updated").update_time(),
        date_time("modification_timestamp").update_time(),
        boolean("profile_visible_online"),
        untyped_list("client_auths"),
        untyped_list("teams"),
        untyped_list("service_area_zip_codes"),
        untyped_list("alternate_offices"),
        untyped_list("partners").on_request("include_partners").guarded("partner_data"),
        untyped_list("company_programs").on_request("include_company_programs", INDEX_ONLY),
        untyped_list("languages"),
        untyped_list("user_reviews").on_request("include_reviews"),
        *untyped_named("client_id_1", "client_agent_id", "auth_client_id", "mls_agent_id"),
        *untyped_named("alternate_internal_office_id", "office_address_street2", "office_mailing_address_street2"),
        *untyped_named("name", "first_name", "last_name", "nickname"),
        *untyped_named("mobile_phone_number", "alt_phone_number", "fax_phone_number", "lead_routing_email_address"),
        untyped("bio").on_request("include_bio", INDEX_ONLY),
        untyped("designations"),
        untyped("website_base_url").on_request("include_website", INDEX_ONLY),
        *untyped_named("microblog", "social_plus", "social_network", "photo_share", "blog", "video_share"),
        *untyped_named("professional_network", "pinboard", "deactivated_timestamp"),
        integer("gci_goal").only_on_request("include_gci_goals", SHOW_ONLY).guarded("goals"),
        number("buyer_commission_rate").only_on_request("include_gci_goals", SHOW_ONLY).guarded("commission"),
        number("seller_commission_rate").only_on_request("include_gci_goals", SHOW_ONLY).guarded("commission"),
    ),
    search_fields=(
        keyword_with_doc_values("platform_agent_id"),
        envelope_keyword("source_agent_id"),
        keyword("office", "platform_office_id", refers_to="offices"),
        envelope_timestamp("deactivated", "deactivated_at"),
        presence("has_company_programs", "company_programs"),
        element_count("team_count", "teams"),
        doc_value("modified", "modification_timestamp"),
    ),
    timestamps={"platform_agent_id": "platform_agent_id", "agent_uuid": "id"},
    volatile=frozenset({"last_updated", "last_updated_timestamp", "modification_timestamp"}),
    envelope_members=frozenset({"source_agent_id", "deactivated_at"}),
)


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
