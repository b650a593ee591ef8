"""Option types of a pull, and the API key."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from brokerage_feed.records import RESOURCE_NAMES


class ResourceNamesOption(click.ParamType[tuple[str, ...]]):
    """Names of resources, separated by commas."""

    name = "NAME,…"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the names in the order of changes."""
        names = value.split(",") if isinstance(value, str) else value
        for name in names:
            if name not in RESOURCE_NAMES:
                self.fail(f"{name!r} is not a resource: use some of {', '.join(RESOURCE_NAMES)}.", param, ctx)
        return tuple(name for name in RESOURCE_NAMES if name in names)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:  # noqa: ARG002 - click's signature
        """Complete the last of the names."""
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [
            CompletionItem(before + comma + name)
            for name in RESOURCE_NAMES
            if name.startswith(last) and name not in taken
        ]


def read_key(api_key: str, file: Path | None) -> str:
    """Return the key in the file, or else the given one; raise UsageError if there is none."""
    try:
        key = file.read_text(encoding="utf-8").strip() if file else api_key.strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--key-file {file} cannot be read: {error}.") from error
    if not key or not (key.isascii() and key.isprintable()):
        where = f"--key-file {file} contains no key" if file else "There is no API key"
        raise click.UsageError(f"{where}: set BROKERAGE_API_KEY, or use --key-file.")
    return key
