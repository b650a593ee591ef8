"""The `brokerage` command."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version

import rich_click as click
from click.shell_completion import CompletionItem

from brokerage.examples import ending

# Each is the member of that name of the module of that name.
_COMMANDS = ("demo", "serve", "node", "sample", "index", "keys", "pull", "settings", "doctor", "openapi", "completion")


class _OnDemand(click.RichGroup):
    """Imports a command when it is called: what the others need takes longer to load than most commands to run."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Return the command, or None where there is none of this name."""
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"brokerage.{cmd_name}"), cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names without the help beside them, for which all commands would be imported at a press of TAB."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name) for name in _COMMANDS if name.startswith(incomplete)]


@click.group(
    cls=_OnDemand,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog=ending(
        "brokerage demo",
        "brokerage index reindex data",
        "brokerage serve --workers 4",
        exits="0 done, 1 not done, 2 wrong usage or settings, 3 Elasticsearch is away, 4 another run is busy",
    ),
)
@click.version_option(version("brokerage"), prog_name="brokerage")
def main() -> None:
    """Real-estate brokerage data, read as JSON: the service, its indexer and an embedded Elasticsearch.

    Try `brokerage demo` first. `ELASTICSEARCH_URL` selects the cluster everywhere else.
    """
