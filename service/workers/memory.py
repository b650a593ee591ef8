"""Allocator and garbage collector settings for a process that constantly allocates large buffers and small objects.

By default, glibc returns freed memory to the system, which clears it again for the next allocation: 440 page faults for
a page of 200 listings, a third of the CPU time that the service spends on it (docs/performance.md).
"""

import ctypes
import gc

_OBJECTS_BETWEEN_COLLECTIONS = 20_000
# From malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
# Larger buffers are mapped and unmapped each time: those of pages of several hundred records would leave gaps that
# smaller ones fill, and a worker under attack would keep more free memory than it uses (decision 26).
_MMAP_THRESHOLD_BYTES = 3_145_728
# Free memory above this is returned to the system.
_TRIM_THRESHOLD_BYTES = 134_217_728


def retain_freed_memory() -> bool:
    """Reuse freed memory within the process; return False if the C library does not support it."""
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(
        set_option(_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES) and set_option(_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)
    )


def tune_garbage_collector() -> None:
    """Exclude startup objects from cycle collection, and collect the others less often.

    A page of 1,000 listings creates more objects than the default threshold, none of them in a cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
