"""The `brokerage-feed` command."""

import os
from importlib.metadata import version

import click

from brokerage_feed.pull.pull_command import pull


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("brokerage-feed"), prog_name="brokerage-feed")
@click.pass_context
def main(context: click.Context) -> None:
    """Copy the real-estate data that an API key can read, and keep the copy current and verified."""
    # Copies hold records.
    previous = os.umask(0o077)
    context.call_on_close(lambda: os.umask(previous))


main.add_command(pull)
