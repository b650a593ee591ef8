"""`/offices` and `/offices/{platform_office_id}`."""

from mappings import OFFICE
from service.operation import Operation
from service.parameters.groups import DeactivationFilter, NumberedPaging, ParentScope, TimestampsOption
from service.parameters.types import Text
from service.resources.references import ACTIVITY
from service.resources.responses import PageResponse, RecordResponse


class OfficesParameters(ParentScope, NumberedPaging, DeactivationFilter, TimestampsOption):
    """Parameters of the offices index."""


class OfficeParameters(ParentScope):
    """Parameters of the office show."""

    platform_office_id = Text("May repeat the identifier in the path.")


OPERATIONS = (
    Operation("/offices", OfficesParameters(), PageResponse(OFFICE, rules=(ACTIVITY,), is_enclosed=True)),
    Operation("/offices/{platform_office_id}", OfficeParameters(), RecordResponse(OFFICE)),
)
