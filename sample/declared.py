"""Records of a resource that has no generator of its own: a value of its type for every declared field."""

from collections.abc import Iterator
from typing import Any

from mappings import Resource
from mappings.fields import Field, FieldKind
from sample.envelope_line import envelope_line
from sample.sample_clock import SampleClock, format_date, format_timestamp
from sample.sample_companies import load_companies
from sample.seeded_random import seeded_random

_PER_COMPANY = 12


def declared_lines(resource: Resource, seed: int, clock: SampleClock) -> Iterator[bytes]:
    """Yield the lines of a resource: a dozen records of each company."""
    chance = seeded_random(seed, resource.alias)
    for company in load_companies():
        for number in range(1, _PER_COMPANY + 1):
            touched = clock.last_changed(chance)
            record = {field.name: _value(field, number, touched) for field in resource.stored}
            record[resource.identifier] = f"{company.key}-{number:03}"
            yield envelope_line(company.key, touched, record)


def _value(field: Field, number: int, moment: int) -> Any:
    if field.members:
        members = {member.name: _value(member, number, moment) for member in field.members}
        return [members] if field.kind is FieldKind.OBJECTS else members
    values: dict[FieldKind, Any] = {
        FieldKind.STRING: f"{field.name} {number}",
        FieldKind.DATE: format_date(moment),
        FieldKind.DATE_TIME: format_timestamp(moment),
        FieldKind.INTEGER: number,
        FieldKind.UNIX: moment // 1000,
        FieldKind.NUMBER: number / 2,
        FieldKind.BOOLEAN: number % 2 == 0,
        FieldKind.STRINGS: [f"{field.name} {number}"],
    }
    return values.get(field.kind, field.empty_value)
