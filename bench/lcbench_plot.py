"""A picture of the mean regret by budget, as an SVG file without dependencies."""

import math
from collections.abc import Callable
from xml.sax.saxutils import escape

from bench.lcbench_curves import MARKS
from bench.lcbench_report import Runs

_WIDTH, _HEIGHT = 860, 440
_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 64, 20, 520, 360
_COLOURS = (
    "#0b6e4f", "#d1495b", "#2e6fbf", "#edae49", "#7b4fa3", "#00a6a6", "#8c564b", "#6c757d", "#c2185b", "#7a9a01",
    "#3d3d3d", "#ff7f0e", "#17becf", "#9467bd",
)  # fmt: skip
_GRID = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20)

_Scale = Callable[[float], float]


def draw(runs: Runs) -> str:
    """Return the picture: a line and its 95 % interval for each method, both axes logarithmic."""
    methods = sorted(runs.regrets, key=lambda method: runs.mean(method, MARKS[-1])[0])
    means = {method: [runs.mean(method, mark) for mark in MARKS] for method in methods}
    values = [mean for points in means.values() for mean, _ in points]
    low, high = min(values) / 1.4, max(values) * 1.2

    def x(mark: float) -> float:
        share = math.log(mark / MARKS[0]) / math.log(MARKS[-1] / MARKS[0])
        return round(_LEFT + share * _PLOT_WIDTH, 1)

    def y(value: float) -> float:
        share = math.log(max(value, low) / low) / math.log(high / low)
        return round(_TOP + (1 - share) * _PLOT_HEIGHT, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        "<title>Mean regret of search methods on LCBench by budget</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
    ]
    right, bottom = _LEFT + _PLOT_WIDTH, _TOP + _PLOT_HEIGHT
    for value in (value for value in _GRID if low <= value <= high):
        parts.append(f'<path d="M{_LEFT} {y(value)}H{right}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 8, y(value) + 4, f"{value:g}", "end"))
    for mark in MARKS:
        parts.append(f'<path d="M{x(mark)} {_TOP}V{bottom}" stroke="#eee"/>')
        parts.append(_text(x(mark), bottom + 18, f"{mark}R", "middle"))
    parts.append(
        _text(_LEFT + _PLOT_WIDTH / 2, bottom + 42, "training, in full trainings", "middle")
    )
    middle = _TOP + _PLOT_HEIGHT / 2
    label = _text(18, middle, "mean regret (% accuracy)", "middle")
    parts.append(f'<g transform="rotate(-90 18 {middle})">{label}</g>')
    for index, method in enumerate(methods):
        parts += _curve(method, means[method], x, y, _COLOURS[index % len(_COLOURS)])
        parts += _legend(method, index, _COLOURS[index % len(_COLOURS)])
    return "\n".join([*parts, "</svg>", ""])


def _curve(
    method: str, points: list[tuple[float, float]], x: _Scale, y: _Scale, colour: str
) -> list[str]:
    places = list(zip(MARKS, points, strict=True))
    upper = [f"{x(mark)} {y(mean + half)}" for mark, (mean, half) in places]
    lower = [f"{x(mark)} {y(mean - half)}" for mark, (mean, half) in reversed(places)]
    line = "L".join(f"{x(mark)} {y(mean)}" for mark, (mean, _) in places)
    dashes = "" if method.startswith("model_asha") else ' stroke-dasharray="5 3"'
    return [
        f'<path d="M{"L".join([*upper, *lower])}Z" fill="{colour}" opacity="0.1"/>',
        f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>',
    ]


def _legend(method: str, index: int, colour: str) -> list[str]:
    x, y = _LEFT + _PLOT_WIDTH + 24, _TOP + 12 + 22 * index
    return [
        f'<path d="M{x} {y}h24" stroke="{colour}" stroke-width="3"/>',
        _text(x + 32, y + 4, method, "start"),
    ]


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="#333">{escape(words)}</text>'
