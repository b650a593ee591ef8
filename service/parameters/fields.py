"""The vocabulary of query parameters. Each says what it accepts; what it refuses is told in one sentence.

marshmallow's own number and boolean fields take too much for a query string: `1_000`, ` 3 `, Arabic digits, `yes`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self

from marshmallow import ValidationError, fields

from mappings.legends import PROPERTY_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.deprecation import Deprecation

# The year 2100: a later second is a mistake of unit.
LATEST_SECOND = 4_102_444_800

# No control character of ASCII or Unicode, and no half of a surrogate pair, which is no character at all.
_TEXT = re.compile("[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,128}")
NOT_A_TEXT = "must be 1 to 128 characters without control characters."
_WHOLE = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_TYPES = {str(number): number for number in PROPERTY_TYPES}
_LEGEND = "; ".join(f"{number}: {name}" for number, name in PROPERTY_TYPES.items())
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def is_text(text: str) -> bool:
    """Tell whether an identifier or another short text can be one."""
    return _TEXT.fullmatch(text) is not None


class Parameter(fields.Field[Any]):
    """A query parameter: a text that `read` turns into a value or refuses.

    `group` is the field group that its effect tells of: keys that may not see it may not send the parameter.
    `deprecation` is the announcement that it will go away.
    """

    group = ""
    deprecation: Deprecation | None = None

    def __init__(self, note: str, *, required: bool = False, load_default: Any = None) -> None:
        """Describe the parameter; absent it is `load_default`, and never null."""
        metadata = {"description": note}
        if required:
            super().__init__(required=True, metadata=metadata, error_messages={"required": "is required."})
        else:
            super().__init__(load_default=load_default, metadata=metadata)

    def guarded(self, group: str) -> Self:
        """Refuse the parameter to keys that may not see a field group."""
        self.group = group
        note = f"{self.metadata['description']} Refused to keys that may not see {group}."
        self.metadata = {**self.metadata, "description": note}
        return self

    def deprecated(self, announced: Deprecation) -> Self:
        """Announce that the parameter will go away."""
        self.deprecation = announced
        self.metadata = {**self.metadata, "description": f"{self.metadata['description']} {announced.sentence}"}
        return self

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:  # noqa: ARG002 - marshmallow's signature
        return self.read(str(value))

    def read(self, text: str) -> Any:
        """Return the value of the parameter's text."""
        if not is_text(text):
            raise ValidationError(NOT_A_TEXT)
        return text


class Text(Parameter):
    """An identifier or another short text."""


class Uuid(Parameter):
    """A UUID in the text form of RFC 4122, whose letters may come in either case."""

    def read(self, text: str) -> str:
        """Return the UUID in lower case."""
        if not _UUID.fullmatch(text):
            raise ValidationError("must be a UUID, for example 3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a.")
        return text.lower()


class Truth(Parameter):
    """A boolean."""

    def __init__(self, note: str) -> None:
        """Describe the parameter; absent it is false."""
        super().__init__(note, load_default=False)

    def read(self, text: str) -> bool:
        """Return the truth value of `true`, `false`, `1` or `0`, in any case."""
        truth = _TRUTHS.get(text.lower())
        if truth is None:
            raise ValidationError("must be true or false.")
        return truth


class WholeNumber(Parameter):
    """A whole number within bounds."""

    def __init__(self, note: str, *, least: int, most: int, load_default: int | None = None) -> None:
        """Describe the parameter and its bounds, both included."""
        super().__init__(note, load_default=load_default)
        self.least, self.most = least, most

    def read(self, text: str) -> int:
        """Return the number."""
        number = int(text) if _WHOLE.fullmatch(text) else None
        if number is None or not self.least <= number <= self.most:
            raise ValidationError(f"must be a whole number from {self.least} to {self.most}.")
        return number


class UnixSecond(WholeNumber):
    """A moment in whole seconds since 1970."""

    def __init__(self, note: str) -> None:
        """Describe the parameter."""
        super().__init__(note, least=0, most=LATEST_SECOND)

    def read(self, text: str) -> int:
        """Return the moment; milliseconds are the usual mistake and are named."""
        try:
            return super().read(text)
        except ValidationError:
            raise ValidationError(f"must be a Unix time in whole seconds, at most {LATEST_SECOND}.") from None


class Choice(Parameter):
    """One of a few words."""

    def __init__(self, note: str, choices: tuple[str, ...]) -> None:
        """Describe the parameter; the first choice is the default."""
        super().__init__(note, load_default=choices[0])
        self.choices = choices

    def read(self, text: str) -> str:
        """Return the chosen word."""
        if text not in self.choices:
            raise ValidationError(f"must be one of: {', '.join(self.choices)}.")
        return text


class PropertyTypes(Parameter):
    """Numbers of the property type legend, separated by commas."""

    def __init__(self, note: str) -> None:
        """Describe the parameter, and the legend with it."""
        super().__init__(f"{note} {_LEGEND}.")

    def read(self, text: str) -> list[int]:
        """Return the numbers, each once."""
        parts = text.split(",")
        if len(parts) > len(PROPERTY_TYPES):
            raise ValidationError(f"must be at most {len(PROPERTY_TYPES)} integers from the legend.")
        if wrong := [part for part in parts if part not in _TYPES]:
            listed = ", ".join(repr(part[:40]) for part in wrong[:5])
            raise ValidationError(
                f"must be integers from the legend, -1 and 1 to 23, separated by commas; not {listed}."
            )
        return sorted({_TYPES[part] for part in parts})
