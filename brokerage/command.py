"""The `brokerage` command."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import version

import rich_click as click
from click.shell_completion import CompletionItem

from brokerage.help_epilogs import epilog

# Each command with its module, which defines it under the same name, and the summary in the help of `brokerage`; in the
# order of that help.
_COMMANDS = {
    "demo": ("brokerage.demo", "Serve sample data from an embedded Elasticsearch until Ctrl-C."),
    "serve": ("brokerage.serve", "Serve the API until Ctrl-C."),
    "node": ("brokerage.node", "Run a real Elasticsearch on this machine, for demos and tests."),
    "sample": ("brokerage.sample", "Write sample data to DIR, ready to be indexed."),
    "index": ("brokerage.index.index_command", "Build and maintain the indices that the service reads."),
    "keys": ("brokerage.keys.keys_command", "Create, list, rotate and revoke API keys."),
    "audit": ("brokerage.audit.audit_command", "Show which keys were sent a record."),
    "pull": ("brokerage.pull", "Copy the data that an API key can read to DIR."),
    "settings": ("brokerage.settings", "List all settings, with secrets masked."),
    "doctor": ("brokerage.doctor.doctor_command", "Check settings, Redis, Elasticsearch, indices and keys."),
    "openapi": ("brokerage.openapi", "Print the OpenAPI document that `/v1/openapi.json` serves."),
    "completion": ("brokerage.completion", "Print the completion script for a shell."),
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
        command: click.Command = getattr(import_module(_COMMANDS[cmd_name][0]), cmd_name)
        return command

    def format_options(self, ctx: click.RichContext, formatter: click.RichHelpFormatter) -> None:  # type: ignore[override]
        """List the options, and the commands with their summaries, without importing them."""
        listing = _Listing(params=self.params)
        listing.format_options(click.RichContext(listing, help_option_names=ctx.help_option_names), formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names without their help, which would import every command at each press of TAB."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name) for name in _COMMANDS if name.startswith(incomplete)]


class _Listing(_LazyGroup):
    """The commands with no more than their summaries."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:  # noqa: ARG002 - click's signature
        """Return a command that can only be listed."""
        return click.RichCommand(name=cmd_name, help=_COMMANDS[cmd_name][1])

    format_options = click.RichGroup.format_options


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
@click.version_option(version("brokerage-server"), prog_name="brokerage")
@click.pass_context
def main(context: click.Context) -> None:
    """Serve real-estate brokerage data as JSON, from indices in Elasticsearch.

    Try `brokerage demo` first. All other commands use the cluster in `ELASTICSEARCH_URL`.
    """
    # Files of all commands, and of the node they start, hold records or keys.
    previous = os.umask(0o077)
    context.call_on_close(lambda: os.umask(previous))
