"""What the options of `brokerage pull` take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click
from click.shell_completion import CompletionItem

from consumer.answers import RESOURCES

if TYPE_CHECKING:
    from pathlib import Path

    from brokerage.pull_settings import PullSettings


class Resources(click.ParamType[tuple[str, ...]]):
    """Names of resources, separated by commas; in the order in which changes are told."""

    name = "NAME,…"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the names."""
        names = value.split(",") if isinstance(value, str) else value
        for name in names:
            if name not in RESOURCES:
                self.fail(f"{name!r} is no resource: there are {', '.join(RESOURCES)}.", param, ctx)
        return tuple(name for name in RESOURCES if name in names)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:  # noqa: ARG002 - click's signature
        """Complete the last of the names."""
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [
            CompletionItem(before + comma + name) for name in RESOURCES if name.startswith(last) and name not in taken
        ]


def given_key(settings: PullSettings, file: Path | None) -> str:
    """Return the key of the file, else of the settings; raise UsageError where there is none."""
    try:
        key = file.read_text(encoding="utf-8").strip() if file else settings.api_key.strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--key-file {file} cannot be read: {error}.") from error
    if not key or not (key.isascii() and key.isprintable()):
        where = f"--key-file {file} holds no key" if file else "There is no key"
        raise click.UsageError(f"{where}: set BROKERAGE_API_KEY, or name a file that holds one with --key-file.")
    return key
