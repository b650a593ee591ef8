"""`$expand` as a parameter: names of navigation properties, each optionally with `$select` in parentheses."""

import re
from typing import NamedTuple

from marshmallow import Schema, ValidationError

from service.parameters.types import Parameter
from service.reso.protocol.odata_errors import OptionNotImplemented
from service.reso.protocol.option_names import EXPAND, SELECT
from service.reso.query_options import COLLECTION_OPTIONS, ENTITY_OPTIONS, SelectOption

_MAX_EXPANDED = 10
_ITEM = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]{0,127})\s*(?:\(([^()]*)\))?\s*(?:,|\Z)", re.ASCII)
# Paths, all properties at once, and options that have parentheses.
_DEEPER = re.compile(r"[*/]|\([^()]*\(")
_select = SelectOption("")


class ExpandItem(NamedTuple):
    """A navigation property, and the selected properties of its entities, None for all."""

    name: str
    select: tuple[str, ...] | None


class ExpandOption(Parameter):
    """`$expand`."""

    def parse_text(self, text: str) -> tuple[ExpandItem, ...]:
        """Return the items; raise OptionNotImplemented for nested options other than `$select`."""
        items: list[ExpandItem] = []
        at = 0
        while at < len(text) and len(items) <= _MAX_EXPANDED:
            if (match := _ITEM.match(text, at)) is None:
                raise _fault(text)
            items.append(ExpandItem(match[1], _selected(match[1], match[2])))
            at = match.end()
        names = [item.name for item in items]
        if not items or text.rstrip().endswith(",") or len({*names}) < len(names) or len(names) > _MAX_EXPANDED:
            raise _fault(text)
        return tuple(items)


def _fault(text: str) -> Exception:
    if _DEEPER.search(text):
        return OptionNotImplemented(EXPAND, f"the expression {text[:40]!r}")
    return ValidationError(
        f"must be up to {_MAX_EXPANDED} names of navigation properties separated by commas, each once, as in "
        f"Media({SELECT}=MediaURL),ListAgent."
    )


def _selected(name: str, options: str | None) -> tuple[str, ...] | None:
    selected: tuple[str, ...] | None = None
    for option in filter(None, map(str.strip, (options or "").split(";"))):
        given, _, value = option.partition("=")
        if given.strip() != SELECT:
            raise OptionNotImplemented(EXPAND, f"the option {given.strip()[:40]} of {name}")
        selected = _select.parse_text(value)
    return selected


_EXPAND = {EXPAND: ExpandOption("Navigation properties whose entities to include, separated by commas.")}
EXPANDABLE_COLLECTION_OPTIONS: Schema = Schema.from_dict({**COLLECTION_OPTIONS.declared_fields, **_EXPAND})()
EXPANDABLE_ENTITY_OPTIONS: Schema = Schema.from_dict({**ENTITY_OPTIONS.declared_fields, **_EXPAND})()
