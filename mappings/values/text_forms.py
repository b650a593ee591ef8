"""The forms of texts that requests ask by: the indexer stores them so, and the service reads parameters so.

The contract types these members as strings. Their form follows from the parameter that selects by them, or from what
the contract says of them.
"""

import re
from enum import Enum
from typing import NamedTuple

from mappings.identifiers import CONTROL_CHARACTERS, MAX_CHARACTERS

TEXT_PATTERN = re.compile(f"[^{CONTROL_CHARACTERS}]{{1,{MAX_CHARACTERS}}}")
TEXT_RULE = f"must be 1 to {MAX_CHARACTERS} characters without control characters"
UUID_RULE = "must be a UUID, for example 3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a"

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MINUTE = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_ANY_UUID = re.compile(_UUID, re.ASCII | re.IGNORECASE)
_ANY_TIME = re.compile(rf"{_MINUTE}(?::[0-5][0-9])?", re.ASCII)


class _Form(NamedTuple):
    rule: str  # completes "is '...': "
    pattern: str  # of the texts that are stored


class TextForm(Enum):
    """A form of texts."""

    UUID = _Form(UUID_RULE, rf"^{_UUID}\Z")
    REFERENCE = _Form(TEXT_RULE, rf"^{TEXT_PATTERN.pattern}\Z")
    LOCAL_TIME = _Form("must be a local time HH:MM:SS, for example 13:30:00", rf"^{_MINUTE}:[0-5][0-9]\Z")

    @property
    def rule(self) -> str:
        """What a text must be, without a full stop."""
        return self.value.rule

    @property
    def stored_pattern(self) -> str:
        """The regular expression of the stored texts."""
        return self.value.pattern

    def canonical(self, text: str) -> str | None:
        """Return the text as it is stored, None if it does not have the form."""
        if self is TextForm.UUID:
            return text.lower() if _ANY_UUID.fullmatch(text) else None
        if self is TextForm.LOCAL_TIME:
            return (text + ":00")[: len("HH:MM:SS")] if _ANY_TIME.fullmatch(text) else None
        return text if TEXT_PATTERN.fullmatch(text) else None
