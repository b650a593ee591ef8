"""`/teams` and `/teams/{platform_team_id}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings import TEAM
from service.operation import Call, Operation
from service.parameters.groups import CompanyScope, WholeOrNumbered
from service.resources.records import show
from service.resources.wholes import small_collection

if TYPE_CHECKING:
    from aiohttp import web


class TeamsParameters(CompanyScope, WholeOrNumbered):
    """Parameters of the teams index."""


class TeamParameters(CompanyScope):
    """Parameters of the team show."""


async def list_teams(call: Call) -> web.Response:
    """Answer the teams as a JSON array."""
    return await small_collection(call, TEAM)


async def show_team(call: Call) -> web.Response:
    """Answer one team."""
    return await show(call, TEAM, "platform_team_id")


OPERATIONS = (
    Operation("/teams", TeamsParameters(), list_teams),
    Operation("/teams/{platform_team_id}", TeamParameters(), show_team),
)
