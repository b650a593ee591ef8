"""`/teams` and `/teams/{platform_team_id}`."""

from mappings import TEAM
from service.operation import Operation
from service.parameters.groups import CompanyScope, OptionalPaging
from service.resources.responses import CollectionResponse, RecordResponse


class TeamsParameters(CompanyScope, OptionalPaging):
    """Parameters of the teams index."""


class TeamParameters(CompanyScope):
    """Parameters of the team show."""


OPERATIONS = (
    Operation("/teams", TeamsParameters(), CollectionResponse(TEAM)),
    Operation("/teams/{platform_team_id}", TeamParameters(), RecordResponse(TEAM)),
)
