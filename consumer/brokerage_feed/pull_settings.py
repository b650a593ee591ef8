"""The settings of a pull: options that environment variables give too, and the API key, which has no option."""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

_PREFIX = "BROKERAGE_PULL_"


class SettingOption(click.Option):
    """An option that a variable gives too, or the file that `VARIABLE_FILE` names. It has a default and a help text."""

    is_secret = False

    def __init__(self, names: list[str], **attributes: Any) -> None:
        shown = {"show_envvar": True, "show_default": not attributes.get("is_flag", False)}
        super().__init__(names, **shown | attributes)

    @property
    def variable(self) -> str:
        return str(self.envvar)

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the value of the variable or of its file, None without; raise UsageError for an unreadable file."""
        value = super().resolve_envvar_value(ctx)
        path = os.environ.get(f"{self.variable}_FILE")
        if value is not None or path is None:
            return value
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"{self.variable}_FILE names {path}, which cannot be read: {error}.", ctx) from error


class SecretSetting(SettingOption):
    """A setting without an option: other users can see arguments, and shells record them."""

    is_secret = True

    def add_to_parser(self, parser: object, ctx: click.Context) -> None:
        """Leave the command line as it is."""


API_KEY = SecretSetting(
    ["--api-key"],
    envvar="BROKERAGE_API_KEY",
    default="",
    hidden=True,
    help="API key that `brokerage pull` reads with.",
)
PULL_SETTINGS: tuple[SettingOption, ...] = (
    API_KEY,
    SettingOption(
        ["--attempts"],
        type=click.IntRange(min=1),
        default=8,
        envvar=f"{_PREFIX}ATTEMPTS",
        help="Consecutive failed attempts before a pull gives up.",
    ),
    SettingOption(
        ["--allow-http"],
        is_flag=True,
        default=False,
        envvar=f"{_PREFIX}ALLOW_HTTP",
        help="Whether the key may be sent to another host without TLS, over a network that you trust.",
    ),
    SettingOption(
        ["--verify-seconds"],
        type=click.FloatRange(min=0),
        default=3600.0,
        envvar=f"{_PREFIX}VERIFY_SECONDS",
        help="Seconds between verifications of a pull with --follow.",
    ),
    SettingOption(
        ["--export-seconds"],
        type=click.FloatRange(min=0),
        default=300.0,
        envvar=f"{_PREFIX}EXPORT_SECONDS",
        help="Seconds between exports of a pull with --follow; each rewrites all files.",
    ),
    SettingOption(
        ["--max-file-mib"],
        type=click.IntRange(min=1),
        default=4096,
        envvar=f"{_PREFIX}MAX_FILE_MIB",
        help="Largest file that is downloaded, in MiB.",
    ),
    SettingOption(
        ["--max-total-gib"],
        type=click.IntRange(min=1),
        default=256,
        envvar=f"{_PREFIX}MAX_TOTAL_GIB",
        help="Most bytes of all files of a resource that are downloaded, in GiB.",
    ),
    SettingOption(
        ["--min-free-mib"],
        type=click.IntRange(min=0),
        default=256,
        envvar=f"{_PREFIX}MIN_FREE_MIB",
        help="Space that stays free on the disk of the copy, in MiB.",
    ),
    SettingOption(
        ["--file-hosts"],
        default="",
        envvar=f"{_PREFIX}FILE_HOSTS",
        help="Hosts, as HOST or HOST:PORT with commas between them, that the service may redirect downloads to also "
        "without TLS or at a private address. Others need https and a public address, or one in a network like that of "
        "the service.",
    ),
)


def reject_unknown_variables(environ: Mapping[str, str]) -> None:
    """Raise UsageError for a variable of a pull that is none of its settings: a mistyped limit would not apply."""
    known = [setting.variable for setting in PULL_SETTINGS]
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name.removesuffix("_FILE") not in known:
            near = get_close_matches(name, known, n=1)
            raise click.UsageError(f"{name} is not a setting. Did you mean {', '.join(near or known)}?")
