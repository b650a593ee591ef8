"""The spelling of columns in published Parquet files."""

from enum import StrEnum


class ParquetNames(StrEnum):
    """How columns are named, or that there are no such files."""

    UNDERSCORED = "underscored"  # list_price
    CONTRACT = "contract"  # ListPrice
    NONE = "none"
