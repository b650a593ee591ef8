"""The `brokerage` command."""

from __future__ import annotations

from importlib.metadata import version

import rich_click as click

from brokerage.demo import demo
from brokerage.doctor import doctor
from brokerage.index import index
from brokerage.keys import keys
from brokerage.node import node
from brokerage.sample import sample
from brokerage.serve import serve
from brokerage.settings import settings


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(version("brokerage"), prog_name="brokerage")
def main() -> None:
    """Real-estate brokerage data, read as JSON: the service, its indexer and an embedded Elasticsearch.

    Try `brokerage demo` first. `ELASTICSEARCH_URL` selects the cluster everywhere else.
    """


for command in (demo, serve, node, sample, index, keys, settings, doctor):
    main.add_command(command)
