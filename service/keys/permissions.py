"""Field permissions: the field groups hidden from a key, and the parameters that would reveal them."""

from collections.abc import Collection, Mapping
from typing import Any

from marshmallow import Schema

from mappings import FIELD_GROUPS
from service.errors import Forbidden, ParameterFault
from service.parameters.types import Parameter


def withheld_groups(granted: Collection[str] | None) -> frozenset[str]:
    """Return the field groups hidden from a key; `granted` are the visible ones, or None for all.

    Unknown group names grant nothing. Restricted keys do not see groups that are declared later.
    """
    return frozenset() if granted is None else FIELD_GROUPS.difference(granted)


def reject_guarded_parameters(schema: Schema, sent: Mapping[str, Any], hidden: frozenset[str]) -> None:
    """Raise Forbidden, naming every sent parameter that belongs to one of the `hidden` groups."""
    faults = [
        ParameterFault(name, f"this key may not see the field group {parameter.group}.")
        for name, parameter in schema.fields.items()
        if isinstance(parameter, Parameter) and parameter.group in hidden and sent[name] != parameter.load_default
    ]
    if faults:
        raise Forbidden(*faults)
