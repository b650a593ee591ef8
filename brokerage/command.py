"""The `brokerage` command."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import version

import rich_click as click
from click.shell_completion import CompletionItem

from brokerage.help_epilogs import epilog

# Command to module, in the order of the help; the module defines the command under the same name.
_COMMANDS = {
    "demo": "brokerage.demo",
    "serve": "brokerage.serve",
    "node": "brokerage.node",
    "sample": "brokerage.sample",
    "index": "brokerage.index.index_command",
    "keys": "brokerage.keys.keys_command",
    "audit": "brokerage.audit.audit_command",
    "pull": "brokerage.pull.pull_command",
    "settings": "brokerage.settings",
    "doctor": "brokerage.doctor.doctor_command",
    "openapi": "brokerage.openapi",
    "completion": "brokerage.completion",
}


class _LazyGroup(click.RichGroup):
    """Imports a command when it is called, since importing all of them takes longer than most commands run."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the command names in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Return the command of this name, or None."""
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(_COMMANDS[cmd_name]), cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names without their help, which would import every command at each press of TAB."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name) for name in _COMMANDS if name.startswith(incomplete)]


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog=epilog(
        "brokerage demo",
        "brokerage index reindex data",
        "brokerage serve --workers 4",
        exits="0 success, 1 failure, 2 usage or settings error, 3 Elasticsearch unavailable, 4 locked by another run",
    ),
)
@click.version_option(version("brokerage"), prog_name="brokerage")
@click.pass_context
def main(context: click.Context) -> None:
    """Serve real-estate brokerage data as JSON, from indices in Elasticsearch.

    Try `brokerage demo` first. All other commands use the cluster in `ELASTICSEARCH_URL`.
    """
    # Files of all commands, and of the node they start, hold records or keys.
    previous = os.umask(0o077)
    context.call_on_close(lambda: os.umask(previous))
