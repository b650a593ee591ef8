"""The limit on open files: each connection is one. The usual soft limit of 1,024 is for programs that use `select`."""

import logging
import resource

from service.settings import ServiceSettings

# Connections to Elasticsearch, idle and refused clients, log files, listening sockets.
_OTHER_FILES = 512

_log = logging.getLogger("service")


def raise_file_limit(settings: ServiceSettings) -> int:
    """Raise the soft limit to the hard one and return it; warn if it is too low for all who may wait for changes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # Each download has the file and a second descriptor of its connection.
    needed = settings.waiting + settings.connections + 3 * settings.downloads + _OTHER_FILES
    if hard != resource.RLIM_INFINITY and hard < needed:
        _log.warning(
            "At most %d open files are allowed, and BROKERAGE_WAITING=%d needs %d. Raise the hard limit "
            "(`ulimit -Hn`), or lower the setting.",
            hard,
            settings.waiting,
            needed,
        )
    return hard
