"""Changes of members, offices, teams and memberships; none of them changes the names that listings repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sample.ingredients import pick, uuid
from tests.reso.world.change_kind import ChangeKindSpec, Target
from tests.reso.world.child_changes import delete
from tests.reso.world.generated_world import complete
from tests.reso.world.people_records import make_member, make_team_member, name_fields, office_fields
from tests.reso.world.vocabulary import FIRM_KINDS, FIRMS, FIRST_NAMES, LAST_NAMES

if TYPE_CHECKING:
    from tests.reso.world.random_changes import ChangeContext


def _rename_member(hand: ChangeContext) -> Target:
    if (record := hand.any("Member")) is None:
        return None
    name = name_fields(pick(hand.chance, FIRST_NAMES), pick(hand.chance, LAST_NAMES))
    hand.store.patch("Member", record["MemberKey"], **name)
    return "Member", record["MemberKey"]


def _move_member(hand: ChangeContext) -> Target:
    record, office = hand.any("Member"), hand.any("Office")
    if record is None or office is None:
        return None
    hand.store.patch("Member", record["MemberKey"], **office_fields(office))
    return "Member", record["MemberKey"]


def _turn_member(hand: ChangeContext) -> Target:
    """Deactivated, or active again."""
    if (record := hand.any("Member")) is None:
        return None
    status = "Inactive" if record["MemberStatus"] == "Active" else "Active"
    hand.store.patch("Member", record["MemberKey"], MemberStatus=status)
    return "Member", record["MemberKey"]


def _hire(hand: ChangeContext) -> Target:
    if (office := hand.any("Office")) is None:
        return None
    key = uuid(hand.chance)
    hand.store.put("Member", complete("Member", make_member(hand.chance, key, office)))
    return "Member", key


def _join(hand: ChangeContext) -> Target:
    team, record = hand.any("Teams"), hand.any("Member")
    if team is None or record is None:
        return None
    link = complete("TeamMembers", make_team_member(hand.chance, team, record))
    hand.store.put("TeamMembers", link)
    return "TeamMembers", link["TeamMemberKey"]


def _rename_team(hand: ChangeContext) -> Target:
    if (team := hand.any("Teams")) is None:
        return None
    hand.store.patch("Teams", team["TeamKey"], TeamName=f"Team {pick(hand.chance, FIRMS)}")
    return "Teams", team["TeamKey"]


def _rename_office(hand: ChangeContext) -> Target:
    if (office := hand.any("Office")) is None:
        return None
    name = f"{pick(hand.chance, FIRMS)} {pick(hand.chance, FIRM_KINDS)}"
    hand.store.patch("Office", office["OfficeKey"], OfficeName=name)
    return "Office", office["OfficeKey"]


def _turn_office(hand: ChangeContext) -> Target:
    """Closed, or open again."""
    if (office := hand.any("Office")) is None:
        return None
    status = "Inactive" if office["OfficeStatus"] == "Active" else "Active"
    hand.store.patch("Office", office["OfficeKey"], OfficeStatus=status)
    return "Office", office["OfficeKey"]


PEOPLE_CHANGES = {
    "member renamed": ChangeKindSpec(3, _rename_member),
    "member moved to another office": ChangeKindSpec(3, _move_member),
    "member deactivated or active again": ChangeKindSpec(3, _turn_member),
    "member new": ChangeKindSpec(2, _hire),
    "member deleted": ChangeKindSpec(1, lambda hand: delete(hand, "Member")),
    "team membership added": ChangeKindSpec(2, _join),
    "team membership removed": ChangeKindSpec(2, lambda hand: delete(hand, "TeamMembers")),
    "team renamed": ChangeKindSpec(1, _rename_team),
    "office renamed": ChangeKindSpec(2, _rename_office),
    "office closed or open again": ChangeKindSpec(1, _turn_office),
}
