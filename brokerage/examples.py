"""How the help of every command ends: with lines that can be typed as they are, and with what exit codes mean."""

from __future__ import annotations

# Of the commands that ask Elasticsearch for something that is there or not.
ASKING = "0 done, 1 refused, 2 wrong usage or settings, 3 Elasticsearch is away"
LOADING = (
    "0 done, 1 bad records, a refused swap or a difference, 2 wrong usage, settings or source, "
    "3 Elasticsearch is away or blocks writes, 4 another run is busy, 130 and 143 stopped"
)


def ending(*lines: str, exits: str) -> str:
    """Return the epilog of a command; `exits` lists codes with their meanings, separated by commas.

    Each line stays one line: the help joins what a single line break separates, and nothing else.
    """
    return "\n\n".join(["Examples:", *(f"$ {line}" for line in lines), f"Exit codes: {exits}."])
