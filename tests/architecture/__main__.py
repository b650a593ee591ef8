"""`python -m tests.architecture`: print the figures of the structure, package by package."""

from __future__ import annotations

from tests.architecture.graph import PRODUCT, circles, folder_of, imports, modules, public_classes, rooms, upward
from tests.architecture.prose import package_findings


def _lines(package: str) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder_of(package).rglob("*.py"))


def _row(package: str) -> str:
    found, of_modules = rooms(package), circles(imports(package))
    arrows = sum(len(used) for used in found.values())
    columns = (
        f"{package:<14} {_lines(package):>6} lines",
        f"{len(modules(package)):>4} modules",
        f"{len(found):>3} rooms",
        f"{arrows:>4} arrows",
        f"{len(upward(found)):>3} upward",
        f"{len(of_modules):>2} circles",
        f"{len(package_findings(package)):>4} banned words",
    )
    return " ".join(columns)


if __name__ == "__main__":
    print(*map(_row, PRODUCT), sep="\n")
    print(*(f"{name:<14} {_lines(name):>6} lines" for name in ("bench", "tests")), sep="\n")
    doubled = {name: where for name, where in public_classes().items() if len(where) > 1}
    print(f"{len(doubled)} public class names with several definitions", *sorted(doubled), sep="\n  ")
