"""Printing: every text that a command prints is safe for a terminal."""

import click

from brokerage_feed.terminal_text import printable


def echo(text: str | bytes = "", *, err: bool = False) -> None:
    """Print a text and a line break, with control characters visible; JSON stays valid."""
    click.echo(printable(text if isinstance(text, str) else text.decode()), err=err)
