"""How every operation is asked in every form of its answer, so that many and different records come."""

from service.openapi.schemas import ResponseBody
from service.operation import Operation
from service.resources.responses import response_of
from tests.contract.world import World

# What lets an operation answer many and different records.
_WIDE = {"updated_since": 1, "sold_since": 1, "market_status": "all", "page_size": 50}


def request_paths(world: World, operation: Operation) -> list[str]:
    """Return an index's path, or those of records that together have a value of every member that any has."""
    root, _, variable = operation.path.partition("/{")
    if not variable:
        return [root]
    identifier = response_of(operation).resource.identifier
    found = [envelope["record"] for envelope in world.of(root[1:])]
    having = {name: record for record in found for name, value in record.items() if value not in (None, [])}
    return list(dict.fromkeys(f"{root}/{record[identifier]}" for record in having.values()))


def request_parameters(world: World, operation: Operation, form: ResponseBody | None = None) -> dict[str, object]:
    """Return what to send for all fields of many records, in a form or the default one."""
    known = operation.schema.fields
    sent: dict[str, object] = {name: value for name, value in _WIDE.items() if name in known}
    sent |= {name: "true" for name in known if name.startswith("include_") and name != "include_buyer_listings"}
    if form is not None:
        asked = {
            "underscore_response": form.records.underscored,
            "timestamps_only": form.records.brief,
            "envelope": form.suffix == "Page",
        }
        sent |= {name: "true" for name, holds in asked.items() if holds and name in known}
    if operation.path == "/listings":
        sent["platform_company_id"] = world.company(world.of("listings")[0])
    return sent
