"""The chart of a run: pages a second of the service and its peers, as an SVG for README and docs."""

from html import escape

from bench.questions import FASTAPI, POSTGRES, RAW, RELAY, SERVICE, TEXTBOOKS, Arm
from bench.results import Results

_WIDTH, _LABELS, _NUMBERS, _ROW, _BAR = 720, 260, 70, 34, 20
_STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1f2328}.bar{fill:#8c959f}.ours{fill:#0969da}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.bar{fill:#6e7681}.ours{fill:#4493f8}}"
)


def chart(found: Results) -> str | None:
    """Return the chart as SVG, None if the peers were not measured. Only the fastest textbook index is shown."""
    rates = {
        answers: measured.per_second.median
        for answers in (RAW, RELAY, SERVICE, FASTAPI, POSTGRES, *TEXTBOOKS)
        if (measured := found.find("peers", Arm(answers, depth="any", clients=8))) is not None
    }
    if SERVICE not in rates:
        return None
    slower = sorted((order for order in TEXTBOOKS if order in rates), key=rates.__getitem__)[:-1]
    shown = sorted(rates.keys() - set(slower), key=rates.__getitem__, reverse=True)
    scale = (_WIDTH - _LABELS - _NUMBERS) / max(rates.values())
    rows = "".join(_row(at, answers, rates[answers], scale) for at, answers in enumerate(shown))
    height = _ROW * (len(shown) + 1)
    title = f"Pages of {found.environment.page} listings a second, 8 clients, {found.environment.listings:,} listings"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{title}">'
        f'<style>{_STYLE}</style><text x="0" y="20" font-weight="600">{title}</text>{rows}</svg>\n'
    )


def _row(at: int, answers: str, rate: float, scale: float) -> str:
    top = _ROW * (at + 1)
    kind = "ours" if answers == SERVICE else "bar"
    return (
        f'<text x="{_LABELS - 8}" y="{top + 15}" text-anchor="end">{escape(answers)}</text>'
        f'<rect class="{kind}" x="{_LABELS}" y="{top}" width="{rate * scale:.1f}" height="{_BAR}" rx="2"/>'
        f'<text x="{_LABELS + rate * scale + 8:.1f}" y="{top + 15}">{rate:,.0f}</text>'
    )
