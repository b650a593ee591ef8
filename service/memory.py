"""Memory, told that buffers of megabytes and thousands of small objects come and go all day.

By default glibc gives a freed page back to the system and has the system clear it for the next one: 440 page faults for
a page of 200 listings, a third of the processor time that the service spends on it (docs/performance.md).
"""

from __future__ import annotations

import ctypes
import gc

_OBJECTS_BETWEEN_COLLECTIONS = 20_000
# From malloc.h.
_TRIM_THRESHOLD = -1
_MAP_THRESHOLD = -3
# The largest that glibc takes: larger buffers are mapped and unmapped each time.
_MAPPED_FROM_BYTES = 33_554_432
# Free memory above this goes back to the system.
_KEPT_BYTES = 134_217_728


def keep_freed_memory() -> bool:
    """Let this process reuse what it frees; return False where the C library knows no such thing."""
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(set_option(_MAP_THRESHOLD, _MAPPED_FROM_BYTES)) and bool(set_option(_TRIM_THRESHOLD, _KEPT_BYTES))


def collect_seldom() -> None:
    """Let the collector of cycles leave alone what the process was started with, and look at the rest less often.

    A page of 1,000 listings makes more objects than its default threshold, all of them free of cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
