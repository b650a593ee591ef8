"""Made-up offices, members, teams and memberships."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sample.ingredients import between, phone, pick, uuid
from tests.reso.world.vocabulary import (
    ASSOCIATIONS,
    DESIGNATIONS,
    FIRM_KINDS,
    FIRMS,
    FIRST_NAMES,
    LANGUAGES,
    LAST_NAMES,
    PLACES,
    STREET_KINDS,
    STREETS,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tests.reso.server.schema import Record

# The value of every private field of a made-up record, and nowhere else.
CANARY = "CANARY"


def canary_value(field: str, chance: Random) -> str:
    """Return what a private field holds."""
    return f"{CANARY}-{field}-{chance.getrandbits(24):06x}"


def mls_number(chance: Random) -> str:
    """Return an identifier as MLSs print it, of seven digits."""
    return str(between(chance, 1_000_000, 9_999_999))


def sample_some(chance: Random, items: Sequence[str], most: int = 3) -> list[str]:
    """Return a few different items, sometimes none, in their order."""
    count = between(chance, 0, most)
    chosen = {pick(chance, items) for _ in range(count)}
    return [item for item in items if item in chosen]


def _address(chance: Random, prefix: str) -> Record:
    city, state, code, _county, _latitude, _longitude = pick(chance, PLACES)
    return {
        f"{prefix}Address1": f"{between(chance, 1, 9999)} {pick(chance, STREETS)} {pick(chance, STREET_KINDS)}",
        f"{prefix}City": city,
        f"{prefix}StateOrProvince": state,
        f"{prefix}PostalCode": f"{code}{between(chance, 0, 99):02d}",
    }


def make_office(chance: Random, key: str, main: Record | None = None) -> Record:
    """Return an office, a branch of another if that is given."""
    name = f"{pick(chance, FIRMS)} {pick(chance, FIRM_KINDS)}"
    return _address(chance, "Office") | {
        "OfficeKey": key,
        "OfficeMlsId": mls_number(chance),
        "OfficeName": main["OfficeName"] if main else name,
        "OfficePhone": phone(chance),
        "OfficeFax": phone(chance) if chance.random() < 0.3 else None,
        "OfficeEmail": f"office{mls_number(chance)}@example.com",
        "OfficeAddress2": f"Suite {between(chance, 1, 900)}" if chance.random() < 0.3 else None,
        "OfficeCountyOrParish": None,
        "OfficeStatus": "Active" if chance.random() < 0.93 else "Inactive",
        "OfficeType": "MLS",
        "OfficeBranchType": "Branch" if main else "Main",
        "OfficeAOR": pick(chance, ASSOCIATIONS),
        "OfficeCorporateLicense": mls_number(chance),
        "FranchiseAffiliation": pick(chance, FIRMS) if chance.random() < 0.2 else None,
        "MainOfficeKey": (main or {"OfficeKey": key})["OfficeKey"],
        "MainOfficeMlsId": main["OfficeMlsId"] if main else None,
        "OfficeBrokerKey": None,
        "OfficeManagerKey": None,
        "OfficeNationalAssociationId": mls_number(chance),
        "OfficeBio": None,
        "IDXOfficeParticipationYN": chance.random() < 0.9,
        "OriginalEntryTimestamp": "2019-05-06T07:08:09.100Z",
    }


def make_member(chance: Random, key: str, office: Record) -> Record:
    """Return a member of an office."""
    first, last = pick(chance, FIRST_NAMES), pick(chance, LAST_NAMES)
    return (
        _address(chance, "Member")
        | name_fields(first, last)
        | office_fields(office)
        | _reached(chance)
        | {
            "MemberKey": key,
            "MemberMlsId": mls_number(chance),
            "MemberMiddleName": None,
            "MemberNickname": first[:3] if chance.random() < 0.1 else None,
            "MemberCountry": "US",
            "MemberStatus": "Active" if chance.random() < 0.92 else "Inactive",
            "MemberType": "Designated REALTOR Participant" if chance.random() < 0.1 else "MLS Only Salesperson",
            "MemberAOR": office["OfficeAOR"],
            "JobTitle": "Broker" if chance.random() < 0.3 else None,
            "MemberBio": pick(chance, REMARKS_OF_MEMBERS),
            "MemberStateLicense": mls_number(chance),
            "MemberStateLicenseState": office["OfficeStateOrProvince"],
            "MemberNationalAssociationId": mls_number(chance),
            "MemberLanguages": sample_some(chance, LANGUAGES),
            "MemberDesignation": sample_some(chance, DESIGNATIONS, 2),
            "MemberLoginId": canary_value("MemberLoginId", chance),
            "MemberPassword": canary_value("MemberPassword", chance),
            "OriginalEntryTimestamp": "2020-01-02T03:04:05.600Z",
        }
    )


REMARKS_OF_MEMBERS = ("Sells houses & listens.", "Twenty years on the lake.", "Спрашивайте по-русски.", None)


def name_fields(first: str, last: str) -> Record:
    """Return the name fields of a member."""
    return {"MemberFirstName": first, "MemberLastName": last, "MemberFullName": f"{first} {last}"}


def office_fields(office: Record) -> Record:
    """Return the fields of a member that name its office."""
    return {name: office.get(name) for name in ("OfficeKey", "OfficeMlsId", "OfficeName")}


def _reached(chance: Random) -> Record:
    return {
        "MemberEmail": f"m{mls_number(chance)}@example.com",
        "MemberPreferredPhone": phone(chance),
        "MemberMobilePhone": phone(chance) if chance.random() < 0.8 else None,
        "MemberDirectPhone": phone(chance) if chance.random() < 0.4 else None,
        "MemberOfficePhone": phone(chance),
        "MemberAddress2": None,
    }


def make_team(chance: Random, key: str, lead: Record) -> Record:
    """Return a team with its lead."""
    return _address(chance, "Team") | {
        "TeamKey": key,
        "TeamName": f"The {lead['MemberLastName']} Team",
        "TeamStatus": pick(chance, ("Active", "Active", "Active", "Inactive", None)),
        "TeamLeadKey": lead["MemberKey"],
        "TeamLeadMlsId": lead["MemberMlsId"],
        "TeamDescription": None,
        "TeamEmail": f"team{mls_number(chance)}@example.com",
        "TeamDirectPhone": phone(chance),
        "OriginalEntryTimestamp": "2021-02-03T04:05:06.700Z",
    }


def make_team_member(chance: Random, team: Record, member: Record) -> Record:
    """Return the membership of a member in a team."""
    is_lead = team["TeamLeadKey"] == member["MemberKey"]
    return {
        "TeamMemberKey": uuid(chance),
        "TeamKey": team["TeamKey"],
        "MemberKey": member["MemberKey"],
        "MemberMlsId": member["MemberMlsId"],
        "TeamMemberType": "Team Lead" if is_lead else pick(chance, ("Team Member", "Administrative Assistant")),
        "TeamImpersonationLevel": None,
        "OriginalEntryTimestamp": "2021-02-03T04:05:06.800Z",
    }
