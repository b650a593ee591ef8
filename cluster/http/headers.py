"""Headers by which other servers say when: dates, and how long to wait."""

import email.utils
import time

# However long a server asks to be left alone.
_MAX_RETRY_AFTER_SECONDS = 3600.0


def parse_retry_after(text: str) -> float | None:
    """Return the seconds of a Retry-After header, given as seconds or as a date; at most an hour."""
    if text.isascii() and text.isdecimal():
        return min(float(text), _MAX_RETRY_AFTER_SECONDS)
    date = parse_http_date(text)
    return None if date is None else min(max(date - time.time(), 0.0), _MAX_RETRY_AFTER_SECONDS)


def parse_http_date(text: str) -> float | None:
    """Return an HTTP date in seconds since 1970, None for anything else."""
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
