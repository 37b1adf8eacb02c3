"""A picture of ratios as SVG: for each model and peer a bar for prefill and one for decode, with
the spread of the rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from statistics import median

from results import Results

WIDTH, LABELS, RIGHT = 860, 300, 60
BAR, GAP, HEADING, TOP = 13, 7, 30, 56
COLOURS = {"prefill": "#2b6cb0", "decode": "#dd6b20"}


@dataclass(frozen=True)
class Bar:
    """One bar: a label of its pair, which figure, and the ratios of the rounds."""

    label: str
    figure: str
    ratios: tuple[float, ...]


def bars(results: Results) -> Iterator[Bar]:
    """The bars of a model: each of ours against its opponents."""
    for ours in results.ours():
        for peer in results.opponents(ours):
            for figure in COLOURS:
                ratios = tuple(results.ratios(ours, peer, figure))
                if ratios:
                    yield Bar(f"{ours} over {peer}", figure, ratios)


def plot(all_results: list[Results]) -> str:
    """The picture."""
    groups = {results.model: list(bars(results)) for results in all_results}
    widest = max((max(b.ratios) for group in groups.values() for b in group), default=1.0)
    scale = (WIDTH - LABELS - RIGHT) / max(widest, 1.0)
    body, y = [], TOP
    for model, group in groups.items():
        body.append(text(8, y + 18, model, "font-weight='bold'"))
        y += HEADING
        for i, bar in enumerate(group):
            body += bar_shapes(bar, y, scale, labelled=i == 0 or group[i - 1].label != bar.label)
            y += BAR + (GAP if i + 1 == len(group) or group[i + 1].label != bar.label else 1)
    return document(y + GAP, [*frame(y, scale), *body])


def bar_shapes(bar: Bar, y: int, scale: float, *, labelled: bool) -> Iterator[str]:
    """A bar with its number, and a line from the lowest to the highest round."""
    middle, low, high = median(bar.ratios), min(bar.ratios), max(bar.ratios)
    if labelled:
        yield text(LABELS - 8, y + BAR, bar.label, "text-anchor='end'")
    yield rectangle(LABELS, y, middle * scale, BAR, COLOURS[bar.figure])
    line = y + BAR / 2
    yield (
        f"<path d='M{LABELS + low * scale:.1f} {line:.1f}H{LABELS + high * scale:.1f}' "
        "stroke='#1a202c' stroke-width='1.5'/>"
    )
    yield text(LABELS + high * scale + 5, y + BAR - 2, f"{middle:.2f}", "font-size='11'")


def frame(bottom: int, scale: float) -> Iterator[str]:
    """The title, what the colours mean, and the line where both are equally fast."""
    yield text(8, 20, "How many times as fast as each peer ggufc is, on the same file", "")
    x = 8
    for figure, colour in COLOURS.items():
        yield rectangle(x, 30, 12, 12, colour)
        yield text(x + 17, 41, figure, "")
        x += 90
    one = LABELS + scale
    yield (
        f"<path d='M{one:.1f} {TOP - 6}V{bottom}' stroke='#718096' stroke-dasharray='4 3'/>"
        + text(one - 3, TOP - 10, "1", "font-size='11'")
    )


def rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    """A filled rectangle."""
    return f"<rect x='{x:g}' y='{y:g}' width='{width:.1f}' height='{height:g}' fill='{colour}'/>"


def text(x: float, y: float, content: str, attributes: str) -> str:
    """A line of text."""
    return f"<text x='{x:.1f}' y='{y:.1f}' {attributes}>{escape(content)}</text>"


def document(height: int, shapes: list[str]) -> str:
    """The shapes on white."""
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' "
        f"viewBox='0 0 {WIDTH} {height}' font-family='sans-serif' font-size='13' fill='#1a202c'>"
    )
    back = f"<rect width='{WIDTH}' height='{height}' fill='white'/>"
    return "\n".join([head, back, *shapes, "</svg>"]) + "\n"
