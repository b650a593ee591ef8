"""`brokerage pull`: the client's own command, which starts only if every setting is known."""

from typing import Any

import rich_click as click

from brokerage.command_runs import exit_on_error
from brokerage_feed.command import pull as client_pull
from brokerage_feed.command import run_command


@click.command(
    params=[*client_pull.params],
    help=client_pull.help,
    epilog=(client_pull.epilog or "").replace("brokerage-feed pull", "brokerage pull"),
)
def pull(**options: Any) -> None:
    """Run the client's command with the same options."""
    with exit_on_error():
        pass
    run_command(**options)
