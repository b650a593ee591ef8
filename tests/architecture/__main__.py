"""`python -m tests.architecture`: print the modules and lines of each package."""

from pathlib import Path

from tests.architecture.graph import PRODUCT, ROOT, folder_of


def _row(name: str, folder: Path) -> str:
    paths = list(folder.rglob("*.py"))
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
    return f"{name:<14} {len(paths):>5} modules {lines:>7} lines"


if __name__ == "__main__":
    print(*(_row(name, folder_of(name)) for name in PRODUCT), sep="\n")
    print(*(_row(name, ROOT / name) for name in ("bench", "tests")), sep="\n")
