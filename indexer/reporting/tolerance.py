"""Limits given as a share of records: for dead letters, growth and shrinkage."""

from indexer.reporting.report import ResourceReport

# Always tolerated, since a share of few records is meaningless.
_MIN_TOLERATED = 10
# While reading, the share is taken of at least this many envelopes, so that bad first lines do not fail a long file.
_MIN_JUDGED_ENVELOPES = 10_000


def tolerated_count(share: float, of: int) -> float:
    """Return the limit for a number of records, at least `_MIN_TOLERATED`."""
    return max(_MIN_TOLERATED, share * of)


def excess_dead_letters(report: ResourceReport, share: float, *, at_end: bool) -> str | None:
    """Return why a source has too many dead letters, without a full stop; None if it does not."""
    judged = report.read if at_end else max(report.read, _MIN_JUDGED_ENVELOPES)
    if report.dead <= tolerated_count(share, judged):
        return None
    return (
        f"{report.dead} of {report.read} {report.resource} are bad, more than BROKERAGE_DEAD_LETTER_LIMIT "
        f"({share:g}) allows"
    )
