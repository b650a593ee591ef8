"""`python -m tests.diagram`: redraw `docs/architecture/packages.svg` from the imports of the code."""

from tests.architecture.graph import ROOT
from tests.diagram.drawing import svg
from tests.diagram.structure import packages

DRAWING = ROOT / "docs/architecture/packages.svg"

if __name__ == "__main__":
    DRAWING.parent.mkdir(exist_ok=True)
    DRAWING.write_text(svg(packages()), encoding="utf-8")
