"""The `brokerage-feed` command: `pull` keeps a complete, current and verified copy of what an API key can read."""

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from brokerage_feed.export import EXPORT_FORMATS
from brokerage_feed.pull import PullArguments, exit_on_pull_error, exit_with_result, run_pull
from brokerage_feed.pull_progress import PullDisplay, PullProgressLog, PullProgressText
from brokerage_feed.pull_settings import PULL_SETTINGS, reject_unknown_variables
from brokerage_feed.records import RESOURCE_NAMES
from brokerage_feed.tables import Spelling
from brokerage_feed.terminal import exit_on_signal


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
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [
            CompletionItem(before + comma + name)
            for name in RESOURCE_NAMES
            if name.startswith(last) and name not in taken
        ]


def _read_key(api_key: str, file: Path | None) -> str:
    """Return the key in the file, or else the given one; raise UsageError if there is none."""
    try:
        key = file.read_text(encoding="utf-8").strip() if file else api_key.strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--key-file {file} cannot be read: {error}.") from error
    if not key or not (key.isascii() and key.isprintable()):
        where = f"--key-file {file} contains no key" if file else "There is no API key"
        raise click.UsageError(f"{where}: set BROKERAGE_API_KEY, or use --key-file.")
    return key


_EPILOG = "\n\n".join(
    [
        "Examples:",
        "$ brokerage-feed pull copy --url https://api.example.com",
        "$ brokerage-feed pull copy --url https://api.example.com --follow",
        "$ brokerage-feed pull copy --url http://127.0.0.1:8080 --resources listings,agents",
        "Exit codes: 0 complete and equal, 1 request rejected or verification failed, 2 usage or settings error, "
        "3 service unavailable, 4 DIR locked by another pull, 5 differences repaired, 130 SIGINT, 143 SIGTERM.",
    ]
)


@click.command(epilog=_EPILOG)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option("--url", required=True, help="Root of the service, with or without /v1.")
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the API key; BROKERAGE_API_KEY by default. There is no option for the key itself, since other "
    "users can see command-line arguments and shells record them.",
)
@click.option("--company", metavar="ID", help="Only records of this company (platform_company_id).")
@click.option(
    "--parent-company", metavar="ID", help="Only records of the children of this company (parent_company_id)."
)
@click.option(
    "--resources",
    type=ResourceNamesOption(),
    default=",".join(RESOURCE_NAMES),
    show_default="all",
    help="Resources to copy, separated by commas.",
)
@click.option(
    "--market-status",
    type=click.Choice(["all", "on-market"]),
    default="all",
    show_default=True,
    help="Which listings to copy.",
)
@click.option("--include-deactivated", is_flag=True, help="Copy deactivated agents and offices too.")
@click.option(
    "--format",
    "export_format",
    type=click.Choice(["sqlite", *EXPORT_FORMATS]),
    default="sqlite",
    show_default=True,
    help="Format of exports in addition to copy.sqlite3. parquet requires brokerage-feed[parquet].",
)
@click.option(
    "--names",
    type=click.Choice([spelling.value for spelling in Spelling]),
    default=Spelling.UNDERSCORED.value,
    show_default=True,
    help="Columns in Parquet: list_price, or ListPrice as in the contract. SQLite has both.",
)
@click.option(
    "--once/--follow",
    "is_once",
    default=True,
    show_default=True,
    help="Exit once the copy is current, or keep it current.",
)
@click.option(
    "--verify/--no-verify",
    "is_verified",
    default=True,
    show_default=True,
    help="Verify the copy by the digests of the service.",
)
@click.option(
    "--files/--no-files",
    "takes_files",
    default=True,
    show_default=True,
    help="Begin with the published files of a company where there are any, instead of a snapshot.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines on a terminal as well.")
def pull(**options: Any) -> None:
    """Copy the data that an API key can read to DIR.

    It takes published files or a snapshot first, then changes. The copy is DIR/copy.sqlite3, with typed columns for
    each resource, and can be read at any time. An interrupted pull leaves the copy consistent and resumes. Digests
    verify that the copy equals the data of the service; records that differ are reported and fetched again.
    """
    reject_unknown_variables(os.environ)
    run_command(**options)


pull.params += PULL_SETTINGS


def run_command(key_file: Path | None, api_key: str, *, as_json: bool, **options: Any) -> NoReturn:
    """Pull with the options of the command, and exit with the code of the outcome."""
    arguments = PullArguments(key=_read_key(api_key, key_file), **options)
    with exit_on_pull_error(), exit_on_signal("Stopped: the copy is consistent, and the same command resumes."):
        with open_display(arguments.directory, as_json=as_json) as shown:
            statuses = run_pull(arguments, shown)
        shown.finish(statuses)
    exit_with_result(statuses)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("brokerage-feed"), prog_name="brokerage-feed")
@click.pass_context
def main(context: click.Context) -> None:
    """Copy the real-estate data that an API key can read, and keep the copy current and verified."""
    # Copies hold records.
    previous = os.umask(0o077)
    context.call_on_close(lambda: os.umask(previous))


main.add_command(pull)


def open_display(directory: Path, *, as_json: bool) -> PullDisplay:
    """Return sentences if standard output is a terminal, else JSON lines."""
    if as_json or not sys.stdout.isatty():
        return PullProgressLog(sys.stdout)
    return PullProgressText(sys.stdout, directory)
