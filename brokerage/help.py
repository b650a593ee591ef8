"""Groups whose commands are imported when they are called, and the end of every help text.

Importing all commands takes longer than most commands run. A help text ends with examples that work as they are, and
with the exit codes.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import rich_click as click
from click.shell_completion import CompletionItem


class LazyGroup(click.RichGroup):
    """A group of commands in the order of its help."""

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in self.modules:
            return None
        module, _, attribute = self.modules[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called; for a misspelt one, end with those that are close."""
        if close := [] if args[0] in self.modules else get_close_matches(args[0], self.modules):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, close))}?")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.RichContext, formatter: click.RichHelpFormatter) -> None:  # type: ignore[override]
        """List the options, and the commands with their summaries, without importing them."""
        listing = _Listing(params=self.params, modules=self.modules)
        listing.format_options(click.RichContext(listing, help_option_names=ctx.help_option_names), formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names without their help, which would import every command at each press of TAB."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name) for name in self.modules if name.startswith(incomplete)]


class _Listing(LazyGroup):
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:  # noqa: ARG002 - click's signature
        return click.RichCommand(name=cmd_name, help=self.modules[cmd_name][1])

    format_options = click.RichGroup.format_options


# Of commands that only read or write single documents.
QUERY_EXITS = "0 success, 1 failure, 2 usage or settings error, 3 Elasticsearch unavailable"
INDEX_EXITS = (
    "0 success, 1 invalid records, failed check or difference, 2 usage, settings or source error, "
    "3 Elasticsearch unavailable or read-only, 4 locked by another run, 130 SIGINT, 143 SIGTERM"
)


def epilog(*lines: str, exits: str) -> str:
    """Return the epilog of a command; `exits` lists codes with their meanings, separated by commas.

    Paragraphs, since the help joins lines that a single line break separates.
    """
    return "\n\n".join(["Examples:", *(f"$ {line}" for line in lines), f"Exit codes: {exits}."])
