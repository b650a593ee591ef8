"""Other processes, as the kernel reports them."""

from contextlib import suppress
from pathlib import Path
from signal import Signals

from service.workers.worker import REPLACED_SIGNAL


def workers_of(pid: int) -> set[int]:
    """Return the worker processes of a service that have been set up: before that any signal ends them."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {child for child in map(int, children) if catches(child, REPLACED_SIGNAL)}


def catches(pid: int, number: Signals) -> bool:
    """Whether a process handles a signal by itself."""
    caught = _status(pid).get("SigCgt", "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    return _state(pid) not in {"", "Z"}


def is_stopped(pid: int) -> bool:
    """Whether it holds still: SIGSTOP takes a moment, and a signal sent meanwhile overtakes it."""
    return _state(pid) == "T"


def has_listening_socket(pid: int) -> bool:
    """Whether a process has a TCP socket that listens, of its own or shared with others."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}
    return any(_target(path) in listening for path in Path(f"/proc/{pid}/fd").iterdir())


def _target(path: Path) -> str:
    with suppress(FileNotFoundError):
        return str(path.readlink())
    return ""


def _state(pid: int) -> str:
    return _status(pid).get("State", "")[:1]


def _status(pid: int) -> dict[str, str]:
    with suppress(FileNotFoundError, ProcessLookupError):
        text = Path(f"/proc/{pid}/status").read_text()
        return dict(line.split(":\t", 1) for line in text.splitlines())
    return {}
