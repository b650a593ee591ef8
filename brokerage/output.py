"""Printing, as the client's own command does it: every text is safe for a terminal."""

from brokerage_feed.terminal import echo

__all__ = ["echo"]
