"""Changes of members, offices, teams and memberships; none of them changes the names that listings repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sample.dice import pick, uuid
from tests.reso.changing_children import delete
from tests.reso.kinds import Kind, Target
from tests.reso.people import at_office, member, named, team_member
from tests.reso.words import FIRM_KINDS, FIRMS, FIRST_NAMES, LAST_NAMES
from tests.reso.world import complete

if TYPE_CHECKING:
    from tests.reso.changes import Hand


def _rename_member(hand: Hand) -> Target:
    if (record := hand.any("Member")) is None:
        return None
    name = named(pick(hand.chance, FIRST_NAMES), pick(hand.chance, LAST_NAMES))
    hand.store.patch("Member", record["MemberKey"], **name)
    return "Member", record["MemberKey"]


def _move_member(hand: Hand) -> Target:
    record, office = hand.any("Member"), hand.any("Office")
    if record is None or office is None:
        return None
    hand.store.patch("Member", record["MemberKey"], **at_office(office))
    return "Member", record["MemberKey"]


def _turn_member(hand: Hand) -> Target:
    """Deactivated, or active again."""
    if (record := hand.any("Member")) is None:
        return None
    status = "Inactive" if record["MemberStatus"] == "Active" else "Active"
    hand.store.patch("Member", record["MemberKey"], MemberStatus=status)
    return "Member", record["MemberKey"]


def _hire(hand: Hand) -> Target:
    if (office := hand.any("Office")) is None:
        return None
    key = uuid(hand.chance)
    hand.store.put("Member", complete("Member", member(hand.chance, key, office)))
    return "Member", key


def _join(hand: Hand) -> Target:
    team, record = hand.any("Teams"), hand.any("Member")
    if team is None or record is None:
        return None
    link = complete("TeamMembers", team_member(hand.chance, team, record))
    hand.store.put("TeamMembers", link)
    return "TeamMembers", link["TeamMemberKey"]


def _rename_team(hand: Hand) -> Target:
    if (team := hand.any("Teams")) is None:
        return None
    hand.store.patch("Teams", team["TeamKey"], TeamName=f"Team {pick(hand.chance, FIRMS)}")
    return "Teams", team["TeamKey"]


def _rename_office(hand: Hand) -> Target:
    if (office := hand.any("Office")) is None:
        return None
    name = f"{pick(hand.chance, FIRMS)} {pick(hand.chance, FIRM_KINDS)}"
    hand.store.patch("Office", office["OfficeKey"], OfficeName=name)
    return "Office", office["OfficeKey"]


def _turn_office(hand: Hand) -> Target:
    """Closed, or open again."""
    if (office := hand.any("Office")) is None:
        return None
    status = "Inactive" if office["OfficeStatus"] == "Active" else "Active"
    hand.store.patch("Office", office["OfficeKey"], OfficeStatus=status)
    return "Office", office["OfficeKey"]


PEOPLE_CHANGES = {
    "member renamed": Kind(3, _rename_member),
    "member moved to another office": Kind(3, _move_member),
    "member deactivated or active again": Kind(3, _turn_member),
    "member new": Kind(2, _hire),
    "member deleted": Kind(1, lambda hand: delete(hand, "Member")),
    "team membership added": Kind(2, _join),
    "team membership removed": Kind(2, lambda hand: delete(hand, "TeamMembers")),
    "team renamed": Kind(1, _rename_team),
    "office renamed": Kind(2, _rename_office),
    "office closed or open again": Kind(1, _turn_office),
}
