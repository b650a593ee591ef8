"""What a key may not see of a record, and the parameters that would tell of it all the same (field permissions)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings import FIELD_GROUPS
from service.errors import Fault, Forbidden
from service.parameters.fields import Parameter

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from marshmallow import Schema


def withheld(granted: Collection[str] | None) -> frozenset[str]:
    """Return the field groups that a key may not see; `granted` are those that it may, None stands for all.

    A name that is no group grants nothing, and a group that is declared later is granted to no restricted key.
    """
    return frozenset() if granted is None else FIELD_GROUPS.difference(granted)


def refuse_guarded(schema: Schema, sent: Mapping[str, Any], hidden: frozenset[str]) -> None:
    """Raise Forbidden, naming every parameter that was sent and guards one of the groups `hidden`."""
    faults = [
        Fault(name, f"this key may not see the field group {parameter.group}.")
        for name, parameter in schema.fields.items()
        if isinstance(parameter, Parameter) and parameter.group in hidden and sent[name] != parameter.load_default
    ]
    if faults:
        raise Forbidden(*faults)
