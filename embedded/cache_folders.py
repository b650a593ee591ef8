"""The folders of the embedded node in the user's cache."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/brokerage`, by default `~/.cache/brokerage`."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "brokerage"


def default_data_folder() -> Path:
    """The data folder if none is configured."""
    return cache_folder() / "data" / "default"
