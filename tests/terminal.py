"""What a command writes to a terminal."""

import os
from contextlib import suppress


def read_to_end(screen: int) -> str:
    """Read a terminal to its end, which Linux reports as an error."""
    read = b""
    with suppress(OSError):
        while part := os.read(screen, 65536):
            read += part
    return read.decode()
