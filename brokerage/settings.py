"""`brokerage settings`: every environment variable, its value, where it comes from and what it does."""

from __future__ import annotations

import os
from dataclasses import dataclass

import rich_click as click
from rich.table import Table

from brokerage.failures import told_plainly
from brokerage.tables import show
from cluster.connection import ConnectionSettings
from cluster.settings import describe, setting
from embedded.options import DEFAULT_HEAP_MB, HEAP_SETTING
from embedded.repository import REPOSITORY_SETTING
from indexer.settings import IndexerSettings
from service.settings import ServiceSettings


@dataclass(frozen=True)
class NodeSettings:
    """The embedded node's settings, to be shown: it stands alone and reads them itself."""

    heap_mb: int = setting(HEAP_SETTING, DEFAULT_HEAP_MB, "Heap of each embedded node, in megabytes.")
    repository: str = setting(REPOSITORY_SETTING, "", "Maven repository that the embedded node is downloaded from.")


KINDS = (ConnectionSettings, ServiceSettings, IndexerSettings, NodeSettings)


@click.command()
def settings() -> None:
    """List all settings. Each may also be given by a file that VARIABLE_FILE names."""
    table = Table(box=None, pad_edge=False)
    table.add_column("Variable", no_wrap=True)
    for column in ("Value", "From", "Meaning"):
        table.add_column(column, overflow="fold")
    with told_plainly():
        for kind in KINDS:
            for shown in describe(kind, os.environ):
                table.add_row(shown.variable, shown.value, shown.origin, shown.note)
    show(table)
