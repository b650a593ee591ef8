"""The table of problem codes, from the error classes."""

from collections.abc import Iterator

from service.errors import ApiError


def problem_codes() -> dict[str, type[ApiError]]:
    """Return every problem code with an error class, ordered by status."""
    classes = sorted(_error_classes(ApiError), key=lambda kind: (kind.status, kind.code))
    return {kind.code: kind for kind in classes if kind.__module__.startswith("service.")}


def problem_table() -> str:
    """Return the table of problems, each linked to the section of its code."""
    rows = (f"| {kind.status} | [`{code}`](#{code}) | {kind.title} |" for code, kind in problem_codes().items())
    return "\n".join(("| Status | Code | Title |", "|---|---|---|", *rows))


def _error_classes(kind: type[ApiError]) -> Iterator[type[ApiError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _error_classes(subclass)
