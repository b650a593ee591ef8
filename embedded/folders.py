"""Where the embedded node keeps its files: one folder in the user's cache."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/brokerage`, by default `~/.cache/brokerage`."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "brokerage"


def default_data_folder() -> Path:
    """Where data goes when no folder is named."""
    return cache_folder() / "data" / "default"
