"""The end of every help text: examples that work as they are, and the exit codes."""

# Of commands that only read or write single documents.
QUERY_EXITS = "0 success, 1 failure, 2 usage or settings error, 3 Elasticsearch unavailable"
INDEX_EXITS = (
    "0 success, 1 invalid records, refused swap or difference, 2 usage, settings or source error, "
    "3 Elasticsearch unavailable or read-only, 4 locked by another run, 130 SIGINT, 143 SIGTERM"
)


def epilog(*lines: str, exits: str) -> str:
    """Return the epilog of a command; `exits` lists codes with their meanings, separated by commas.

    Paragraphs, since the help joins lines that a single line break separates.
    """
    return "\n\n".join(["Examples:", *(f"$ {line}" for line in lines), f"Exit codes: {exits}."])
