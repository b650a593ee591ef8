"""`python -m bench.weight`: what an installation weighs, by distribution, without compiled bytecode.

Sizes are those of the installed files, so the environment must have the extras that are weighed.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
_PROJECTS = {"brokerage-server": ROOT, "brokerage-feed": ROOT / "consumer"}
_INSTALLATIONS = (
    "brokerage-feed",
    "brokerage-feed[progress]",
    "brokerage-server",
    "brokerage-server[redis]",
    "brokerage-server[embedded]",
)
_SHOWN_BYTES = 500_000
_MB = 1e6


def requirements(wanted: str) -> list[str]:
    """Return the distributions that a requirement such as `brokerage-feed[progress]` installs, itself included."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(wanted)]
    while waiting:
        needed = waiting.pop()
        for extra in ("", *sorted(needed.extras)):
            if (at := (_normalized(needed.name), extra)) not in found:
                found.add(at)
                waiting += _required(needed.name, extra)
    return sorted({name for name, _ in found})


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _required(name: str, extra: str) -> Iterator[Requirement]:
    for needed in map(Requirement, _declared(name)):
        if needed.marker is None or needed.marker.evaluate({"extra": extra}):
            yield needed


def _declared(name: str) -> Iterable[str]:
    """Return what a distribution requires: of ours as the tree says, since an installation may be older."""
    if name not in _PROJECTS:
        return distribution(name).requires or ()
    project = tomllib.loads((_PROJECTS[name] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project.get("optional-dependencies", {}).items()
    return [*project["dependencies"], *(_optional(text, extra) for extra, texts in optional for text in texts)]


def _optional(text: str, extra: str) -> str:
    needed, _, marker = text.partition(";")
    return f'{needed}; extra == "{extra}"' + (f" and ({marker})" if marker else "")


def weight(name: str) -> int:
    """Return the bytes of the files of a distribution."""
    if name in _PROJECTS:
        text = (_PROJECTS[name] / "pyproject.toml").read_text(encoding="utf-8")
        folders = tomllib.loads(text)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
        return _total(path for folder in folders for path in (_PROJECTS[name] / folder).rglob("*"))
    return _total(Path(str(file.locate())) for file in distribution(name).files or ())


def _total(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files if path.suffix != ".pyc" and path.is_file())


def _print_installation(wanted: str) -> None:
    parts = {name: weight(name) for name in requirements(wanted)}
    print(f"{wanted}: {sum(parts.values()) / _MB:.1f} MB in {len(parts)} distributions")
    shown = {name: size for name, size in parts.items() if size >= _SHOWN_BYTES}
    for name, size in sorted(shown.items(), key=lambda part: -part[1]):
        print(f"  {name:<28} {size / _MB:6.1f}")
    print(f"  {'others':<28} {(sum(parts.values()) - sum(shown.values())) / _MB:6.1f}")


if __name__ == "__main__":
    for installation in _INSTALLATIONS:
        _print_installation(installation)
