"""`brokerage index replicate --probe`: what a RESO Web API is like, and a map to start from."""

import asyncio
import os
from pathlib import Path
from typing import NoReturn

from brokerage.exit_codes import exit_on_error
from brokerage.index.index_runner import exit_on_indexer_error
from brokerage.output import echo
from cluster.settings import load_settings
from indexer.errors import SourceError
from indexer.reso.probe import probe_source
from indexer.reso.settings import ResoSettings


def probe_and_exit(url: str, map_file: Path | None, profile: str, system: str) -> NoReturn:
    """Print what a source is like, and write the map, to standard output without a file; never overwrite one."""
    with exit_on_error(), exit_on_indexer_error():
        if map_file is not None and map_file.exists():
            raise SourceError(f"{map_file} exists: give --map a new file.")
        settings = load_settings(ResoSettings, os.environ)
        found = asyncio.run(probe_source(url, settings, _say, profile=profile, system=system))
        for line in found.lines:
            _say(line)
        if map_file is None:
            echo(found.map_text.rstrip("\n"))
        else:
            _write(map_file, found.map_text)
            _say(f"{map_file} has a map to start from.")
    raise SystemExit(0)


def _write(map_file: Path, text: str) -> None:
    try:
        map_file.write_text(text)
    except OSError as error:
        raise SourceError(f"{map_file} cannot be written: {error.strerror}.") from error


def _say(sentence: str) -> None:
    echo(sentence, err=True)
