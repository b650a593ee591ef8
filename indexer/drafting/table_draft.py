"""The draft of one table: its columns, the fields that they probably are, and the declarations of these."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from indexer.drafting.column_names import Confidence, NamedField, field_of_column, street_columns
from indexer.drafting.column_values import ColumnValues, NumberForm
from indexer.drafting.value_drafts import ValueDraft, field_named, inline, quoted, value_draft
from mappings import LISTING, SOLD_LISTING, Resource
from mappings.fields import FieldKind

_ORDER = list(Confidence)
_SQUARE_FEET_PER_ACRE = 43_560


@dataclass(frozen=True)
class ColumnGuess:
    """What a column probably is: a field and its declaration, or nothing."""

    column: str
    field: str | None
    confidence: Confidence
    example: str
    draft: ValueDraft

    @property
    def is_declared(self) -> bool:
        """Whether the declaration is part of the map, not only a comment."""
        return self.field is not None and self.confidence is not Confidence.LOW and self.draft.fits


@dataclass
class TableDraft:
    """A sample of files with the same columns."""

    resource: Resource
    files: list[str]
    columns: list[str]
    rows: list[list[str]]
    format: dict[str, str] = field(default_factory=dict)  # keys and TOML values of the encoding and the delimiter

    @cached_property
    def values(self) -> dict[str, ColumnValues]:
        """The values by column; blank and repeated headings are left out."""
        counts = Counter(self.columns)
        return {
            column: ColumnValues([row[index] for row in self.rows])
            for index, column in enumerate(self.columns)
            if column and counts[column] == 1
        }

    @cached_property
    def guesses(self) -> list[ColumnGuess]:
        """The guesses in the order of the columns; each field is guessed once."""
        chosen = self._chosen()
        return [self._guess(column, chosen.get(column)) for column in self.values]

    @cached_property
    def number_form(self) -> NumberForm | None:
        """The signs that most columns of numbers have, with all currencies."""
        forms = [form for form in map(self._number_form, self._chosen().items()) if form]
        signs = Counter((form.decimal, form.thousands) for form in forms if form.thousands or form.has_fractions)
        (decimal, thousands), _ = signs.most_common(1)[0] if signs else ((".", ""), 0)
        currency = tuple(dict.fromkeys(sign for form in forms for sign in form.currency))
        return NumberForm(decimal, thousands, currency, has_fractions=True)

    def _number_form(self, chosen: tuple[str, NamedField]) -> NumberForm | None:
        column, named = chosen
        kinds = {FieldKind.INTEGER, FieldKind.NUMBER, FieldKind.UNTYPED}
        return self.values[column].number_form if field_named(self.resource, named.name).kind in kinds else None

    def _chosen(self) -> dict[str, NamedField]:
        """Return the field of each column, the surest column first."""
        named = [(column, one) for column in self.values if (one := self._named(column))]
        chosen: dict[str, NamedField] = {}
        taken: set[str] = set()
        for column, one in sorted(named, key=lambda pair: _ORDER.index(pair[1].confidence)):
            if one.name not in taken:
                taken.add(one.name)
                chosen[column] = one
        return chosen

    def _named(self, column: str) -> NamedField | None:
        named = field_of_column(self.resource, column)
        if named is None and self.resource in {LISTING, SOLD_LISTING} and (meaning := self.values[column].meaning):
            return NamedField(meaning, Confidence.LOW)
        return named

    def _guess(self, column: str, named: NamedField | None) -> ColumnGuess:
        values = self.values[column]
        if named is None:
            return ColumnGuess(column, None, Confidence.LOW, values.example, ValueDraft("", fits=False))
        draft = value_draft(self.resource, named.name, column, values, self.number_form)
        return ColumnGuess(column, named.name, named.confidence, values.example, draft)

    @property
    def derived(self) -> Iterator[tuple[str, str]]:
        """Fields that follow from several columns or by arithmetic, with their declarations."""
        declared = {guess.field: guess for guess in self.guesses if guess.is_declared}
        names = {one.name for one in self.resource.stored}
        if (key := declared.get("platform_agent_id")) and "agent_uuid" not in declared:
            yield "agent_uuid", value_draft(self.resource, "agent_uuid", key.column, self.values[key.column], None).text
        if "Address" in names - declared.keys() and (parts := street_columns(list(self.values))):
            yield "Address", inline(join=f"[{', '.join(map(quoted, parts))}]")
        baths = declared.get("BathroomsTotal")
        form = self.values[baths.column].number_form if baths else None
        if baths and form and form.has_fractions and not {"BathroomsFull", "BathroomsHalf"} & declared.keys():
            yield "BathroomsFull", inline(formula=quoted(f"floor({{{baths.column}}})"))
            yield "BathroomsHalf", inline(formula=quoted(f"ceil({{{baths.column}}} % 1)"))
        lot = declared.get("LotSizeSquareFeet")
        if lot and "LotSizeAcres" not in declared:
            yield "LotSizeAcres", inline(formula=quoted(f"{{{lot.column}}} / {_SQUARE_FEET_PER_ACRE}"))
