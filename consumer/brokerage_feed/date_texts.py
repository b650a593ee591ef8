"""Texts of typed records that are dates or times."""

from typing import Annotated

import msgspec

Date = Annotated[str, msgspec.Meta(description="YYYY-MM-DD")]
DateTime = Annotated[str, msgspec.Meta(description="ISO 8601 with offset")]
