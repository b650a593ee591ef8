"""`python -m tests.diagram`: draw `docs/architecture/packages.svg` anew from the imports of the code."""

from tests.diagram.drawing import svg
from tests.diagram.structure import packages
from tests.test_architecture import ROOT

DRAWING = ROOT / "docs/architecture/packages.svg"

if __name__ == "__main__":
    DRAWING.parent.mkdir(exist_ok=True)
    DRAWING.write_text(svg(packages()), encoding="utf-8")
