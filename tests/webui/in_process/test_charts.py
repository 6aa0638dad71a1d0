"""Charts of metrics: their colours, scales and values."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.api import create, report_metrics
from tests.support.browser import Tab
from tests.support.house import House

RATE = {"rate": {"type": "double", "minval": 0, "maxval": 1}}
# The number of pixels of a canvas that have a colour, apart from smooth edges.
_PIXELS = """(canvas, colour) => {
    const wanted = colour.match(/[0-9.]+/g).slice(0, 3).map(Number);
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] > 200 && wanted.every((value, n) => Math.abs(data[i + n] - value) < 3)) count += 1;
    return count;
}"""


# The height of the part of a canvas in which a colour is found.
_HEIGHT = """(canvas, colour) => {
    const wanted = colour.match(/[0-9.]+/g).slice(0, 3).map(Number);
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    const rows = [];
    for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] > 200 && wanted.every((value, n) => Math.abs(data[i + n] - value) < 3))
            rows.push(Math.floor(i / 4 / canvas.width));
    return Math.max(...rows) - Math.min(...rows);
}"""
# Charts draw their labels on a canvas. This keeps each label of the next drawing with the places of its edges.
_KEEP_LABELS = """() => {
    window.labels = [];
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const { actualBoundingBoxLeft, actualBoundingBoxRight } = this.measureText(text);
        window.labels.push([text, x - actualBoundingBoxLeft, x + actualBoundingBoxRight, this.canvas.width]);
        draw.call(this, text, x, y);
    };
}"""

_DRAWN_LABELS = """() => new Promise((resolve) => {
    const look = () => (window.labels.length > 4 ? resolve(window.labels) : requestAnimationFrame(look));
    look();
})"""
# Call a function of a script that the page has loaded.
_LOG_TICKS = """async ([low, high]) => {
    const scripts = performance.getEntriesByType("resource").map((entry) => entry.name);
    const chart = await import(scripts.find((name) => name.endsWith("/parts/chart_scale.js")));
    return chart.logTicks(low, high);
}"""


def curved(house: House, curves: Sequence[Sequence[float]]) -> tuple[int, list[int]]:
    """Return an experiment and its trials, each with its losses after 2, 4, 6, ... batches."""
    searcher = {
        "name": "random",
        "metric": "loss",
        "max_trials": len(curves),
        "max_length": {"batches": 99},
    }
    experiment_id = create(house.admin, hyperparameters=RATE, searcher=searcher)
    trials = house.admin.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    ids = [trial["id"] for trial in trials]
    for trial, losses in zip(ids, curves, strict=True):
        for nth, loss in enumerate(losses):
            report(house, trial, 2 * nth + 2, loss)
    return experiment_id, ids


def report(
    house: House, trial: int, batches: int, loss: float, group: str = "validation", run: int = 0
) -> None:
    response = report_metrics(house.admin, trial, group, batches, {"loss": loss}, run)
    assert response.status == 200, response.error


def colour_of(found: Any, style: str) -> str:
    colour: str = found.evaluate(f"e => getComputedStyle(e).{style}")
    return colour


def legend_of(tab: Tab) -> dict[str, str]:
    """Return the colours of the names in the legend, in its order."""
    legend = tab.page.get_by_role("list", name="Chart legend").locator("li")
    legend.first.wait_for()
    return {
        line.locator("a").inner_text(): colour_of(line.locator(".swatch"), "color")
        for line in legend.all()
    }


@pytest.fixture(scope="module")
def five(house: House) -> tuple[int, list[int]]:
    return curved(house, [[0.9, 0.5 - nth / 10] for nth in range(5)])


def test_colours_stay_when_the_ranks_of_trials_change(tab: Tab, house: House) -> None:
    experiment_id, trials = curved(house, [[0.9, 0.5], [0.9, 0.4], [0.9, 0.3]])
    house.admin.post(f"/api/v1/experiments/{experiment_id}/activate")
    tab.open(f"/experiments/{experiment_id}")
    before = legend_of(tab)
    assert list(before) == [f"Trial {trial}" for trial in reversed(trials)]
    report(house, trials[0], 6, 0.1, run=1)
    first = tab.page.get_by_role("list", name="Chart legend").locator("li").first
    first.get_by_text(f"Trial {trials[0]}").wait_for()
    assert legend_of(tab) == before


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_trials_have_the_same_colours_on_every_page(
    tab: Tab, five: tuple[int, list[int]], theme: str
) -> None:
    experiment_id, trials = five
    tab.look(1440, theme)
    tab.open(f"/experiments/{experiment_id}")
    colours = legend_of(tab)
    assert len(set(colours.values())) == 5
    canvas = tab.page.locator(".chart canvas")
    for trial in trials:
        assert canvas.evaluate(_PIXELS, colours[f"Trial {trial}"]) > 20
    tab.open(f"/compare?trials={','.join(map(str, trials[1:4]))}")
    compared = legend_of(tab)
    assert compared == {name: colours[name] for name in compared}
    tab.open(f"/experiments/{experiment_id}/hyperparameters")
    lines = tab.page.locator(".parallel polyline")
    lines.first.wait_for(state="attached")
    for line in lines.all():
        name = line.locator("title").text_content().split(":")[0]
        assert colour_of(line, "stroke") == colours[name]
    points = tab.page.locator(".scatter a")
    for point in points.all():
        name = point.get_attribute("aria-label").split(":")[0]
        assert colour_of(point.locator("circle"), "fill") == colours[name]
    tab.open(f"/trials/{trials[2]}")
    canvas = tab.page.locator(".chart canvas")
    canvas.wait_for()
    assert canvas.evaluate(_PIXELS, colours[f"Trial {trials[2]}"]) > 20


def test_colours_of_curves_differ_in_both_themes(tab: Tab, house: House) -> None:
    tab.open("/design")
    tab.ready()
    for theme in ("light", "dark"):
        tab.look(1280, theme)
        read = "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"
        colours = [rgb(tab.page.evaluate(read, f"--curve-{n}")) for n in range(1, 25)]
        surface = rgb(tab.page.evaluate(read, "--surface"))
        text = rgb(tab.page.evaluate(read, "--ink-faint"))
        assert min(contrast(colour, surface) for colour in colours) >= contrast(text, surface)
        far = {(a, b): distance(colours[a], colours[b]) for a in range(24) for b in range(a)}
        assert min(far.values()) > 0.1
        # Successive trials are often drawn together.
        assert min(far[max(n, (n + 1) % 24), min(n, (n + 1) % 24)] for n in range(24)) > 0.2


# Return the tokens of colours and the dashes of the curves of trials.
_LOOK = """async (trials) => {
    const scripts = performance.getEntriesByType("resource").map((entry) => entry.name);
    const look = await import(scripts.find((name) => name.endsWith("/parts/curve_look.js")));
    return [trials.map(look.colourOf), look.dashesOf(trials).map((dash) => dash ?? [])];
}"""


def test_dashes_begin_after_24_trials_and_a_single_trial_is_solid(tab: Tab) -> None:
    tab.open("/design")
    tab.page.locator(".chart canvas").wait_for()
    colours, dashes = tab.page.evaluate(_LOOK, [*range(4, 28), 28])
    assert len(set(colours[:24])) == 24
    assert colours[24] == colours[0]
    assert dashes[0] == []
    assert dashes[24]
    assert tab.page.evaluate(_LOOK, [28, 28])[1] == [[], []]


def labels_of(tab: Tab) -> list[str]:
    """Draw the charts again. Return their labels, which must lie on the canvas."""
    tab.page.locator(".chart canvas").first.wait_for()
    tab.page.evaluate(_KEEP_LABELS)
    tab.look(tab.page.viewport_size["width"] - 40)
    drawn = tab.page.evaluate(_DRAWN_LABELS)
    assert [text for text, left, right, width in drawn if left < 0 or right > width] == []
    return [text for text, *_ in drawn]


DIVERGING = [[0.9, 0.5, 0.2 + nth / 10] for nth in range(5)] + [[5e3, 4e4, 3e8]]


@pytest.fixture(scope="module")
def diverging(house: House) -> tuple[int, list[int]]:
    """An experiment with six trials, of which the last diverges."""
    return curved(house, DIVERGING)


def test_diverging_curve_does_not_decide_about_the_range(
    tab: Tab, diverging: tuple[int, list[int]]
) -> None:
    experiment_id, trials = diverging
    tab.open(f"/experiments/{experiment_id}")
    colour = legend_of(tab)[f"Trial {trials[0]}"]
    canvas = tab.page.locator(".chart canvas")
    canvas.wait_for()
    tab.page.get_by_text("1 curve of 6 leaves the range: 3 points not shown.").wait_for()
    assert canvas.evaluate(_HEIGHT, colour) > 80
    tab.page.get_by_label("Ignore outliers").uncheck()
    tab.page.get_by_text("leaves the range").wait_for(state="detached")
    assert canvas.evaluate(_HEIGHT, colour) < 20
    tab.page.get_by_label("Log scale").check()
    assert {"1", "100", "10,000", "1e6", "1e8"} <= set(labels_of(tab))


def test_outlier_does_not_decide_about_parallel_coordinates(
    tab: Tab, diverging: tuple[int, list[int]]
) -> None:
    experiment_id, _ = diverging
    tab.open(f"/experiments/{experiment_id}/hyperparameters")
    lines = tab.page.locator(".parallel polyline")
    note = tab.page.get_by_text("1 trial of 6 lies beyond the axis of loss, drawn at its end.")

    def places() -> list[float]:
        """Return the places of trials on the axis of the metric."""
        lines.first.wait_for(state="attached")
        return sorted(
            float(line.get_attribute("points").split(" ")[-1].split(",")[1]) for line in lines.all()
        )

    note.wait_for()
    healthy = places()[1:]
    assert healthy[-1] - healthy[0] > 200
    tab.page.get_by_label("Ignore outliers").uncheck()
    note.wait_for(state="detached")
    healthy = places()[1:]
    assert healthy[-1] - healthy[0] < 1
    tab.page.get_by_label("Log scale").check()
    tab.page.locator(".axis-name", has_text="loss (log)").wait_for()
    healthy = places()[1:]
    assert healthy[-1] - healthy[0] > 10


def test_charts_of_a_trial_have_a_log_scale_without_outliers(tab: Tab, house: House) -> None:
    losses = [1 / (1 + nth) for nth in range(30)]
    losses[20] = 1e9
    _, (trial,) = curved(house, [losses])
    tab.open(f"/trials/{trial}")
    tab.page.get_by_text("1 curve of 1 leaves the range: 1 point not shown.").wait_for()
    tab.page.get_by_label("Log scale").check()
    assert {"0.05", "0.1", "0.5", "1"} <= set(labels_of(tab))


@pytest.mark.parametrize("log", [False, True])
def test_long_labels_of_an_axis_are_not_cut(tab: Tab, house: House, log: bool) -> None:
    experiment_id, _ = curved(house, [[987654321, 987654329.5], [1e-12, 2e-12]])
    tab.open(f"/experiments/{experiment_id}?outliers=1{'&log=1' if log else ''}")
    labels_of(tab)
    one, _ = curved(house, [[-987654321, -987654329.5]])
    tab.open(f"/experiments/{one}")
    assert any(len(label) >= 12 for label in labels_of(tab))


def test_axis_of_batches_has_whole_numbers(tab: Tab, house: House) -> None:
    experiment_id, _ = curved(house, [[0.5, 0.25]])
    tab.open(f"/experiments/{experiment_id}")
    assert {"2", "3", "4"} <= set(labels_of(tab))
    assert not {"2.5", "2.2", "2.25"} & set(labels_of(tab))


def test_log_axes_label_decades_and_few_numbers_within_a_decade(tab: Tab) -> None:
    tab.open("/design")
    tab.page.locator(".chart canvas").wait_for()

    def ticks(low: float, high: float) -> Any:
        return tab.page.evaluate(_LOG_TICKS, [low, high])

    wide = ticks(5e-5, 20)
    assert wide["major"] == [1e-4, 1e-3, 1e-2, 1e-1, 1, 10]
    assert {2e-4, 9e-2, 5, 20} <= set(wide["minor"])
    assert not set(wide["major"]) & set(wide["minor"])
    assert ticks(0.02, 0.9)["major"] == [0.02, 0.05, 0.1, 0.2, 0.5]
    assert ticks(0.31, 0.42) == {"major": [0.32, 0.34, 0.36, 0.38, 0.4, 0.42], "minor": []}
    very_wide = ticks(1e-20, 1e20)["major"]
    assert len(very_wide) <= 9


def test_all_values_at_the_cursor_are_shown_in_their_order(
    tab: Tab, five: tuple[int, list[int]]
) -> None:
    experiment_id, trials = five
    tab.open(f"/experiments/{experiment_id}")
    plot = tab.page.locator(".chart .u-over")
    plot.wait_for()
    box = plot.bounding_box()
    plot.hover(position={"x": box["width"] - 2, "y": box["height"] - 2})
    tip = tab.page.locator(".chart-tip")
    tip.get_by_text("4 batches").wait_for()
    assert [row.inner_text().split() for row in tip.locator("tbody tr").all()] == [
        ["Trial", str(trial), str(round(0.5 - nth / 10, 1))] for nth, trial in enumerate(trials)
    ]
    assert tip.locator(".near").inner_text().split()[1] == str(trials[-1])
    plot.hover(position={"x": 3, "y": 3})
    tip.get_by_text("2 batches").wait_for()
    assert tip.locator("tbody tr").count() == 5


def test_legend_shows_the_value_by_which_it_is_sorted(tab: Tab, house: House) -> None:
    experiment_id, (first, second) = curved(house, [[0.3, 0.8], [0.5, 0.4]])
    tab.open(f"/experiments/{experiment_id}")
    tab.page.get_by_text("Sorted by the best loss.").wait_for()
    legend = tab.page.get_by_role("list", name="Chart legend").locator("li")
    assert legend.all_inner_texts() == [f"Trial {first}\n0.3", f"Trial {second}\n0.4"]
    tab.open(f"/compare?trials={first},{second}")
    tab.page.get_by_text("Sorted by the last loss.").wait_for()
    assert legend.all_inner_texts() == [f"Trial {second}\n0.4", f"Trial {first}\n0.8"]


def test_values_that_are_not_finite_are_counted_and_shown_as_last(tab: Tab, house: House) -> None:
    healthy = [0.9, 0.8, 0.7]
    infinite = [0.9, float("inf"), 0.4]
    diverged = [0.9, 0.5, *[float("nan")] * 5]
    experiment_id, (first, second, third) = curved(house, [healthy, infinite, diverged])
    tab.open(f"/trials/{third}")
    tab.page.get_by_text("5 values of 1 curve are NaN or infinite.").wait_for()
    tab.open(f"/experiments/{experiment_id}")
    tab.page.get_by_text("6 values of 2 curves are NaN or infinite.").wait_for()
    assert tab.page.get_by_text("not shown").count() == 0
    tab.open(f"/compare?trials={first},{second},{third}")
    tab.page.get_by_text("6 values of 2 curves are NaN or infinite.").wait_for()
    legend = tab.page.get_by_role("list", name="Chart legend").locator("li")
    assert legend.all_inner_texts() == [
        f"Trial {second}\n0.4", f"Trial {first}\n0.7", f"Trial {third}\nNaN",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def several(house: House) -> tuple[int, list[int]]:
    """An experiment with two trials, three metrics, and one of them in both groups."""
    experiment_id, trials = curved(house, [[0.9, 0.5], [0.9, 0.4]])
    for trial in trials:
        for batches in (2, 4):
            report(house, trial, batches, 0.3, group="training")
            accuracy = {"accuracy": 0.5, "recall": 0.25}
            response = report_metrics(house.admin, trial, "test", batches, accuracy)
            assert response.status == 200, response.error
    return experiment_id, trials


def see_charts(tab: Tab, *descriptions: str) -> None:
    """Wait until exactly these charts are drawn. Their descriptions are compared without values."""
    tab.page.wait_for_function(
        "wanted => [...document.querySelectorAll('.chart [role=img]')]"
        ".map((chart) => chart.getAttribute('aria-label').split('.')[0]).sort().join() === wanted",
        arg=",".join(sorted(descriptions)),
    )


@pytest.mark.parametrize("is_compared", [False, True])
def test_several_metrics_are_drawn_at_once(
    tab: Tab, several: tuple[int, list[int]], is_compared: bool
) -> None:
    experiment_id, trials = several
    compared = f"/compare?trials={','.join(map(str, trials))}"
    tab.open(compared if is_compared else f"/experiments/{experiment_id}")
    tab.page.locator(".chart canvas").wait_for()
    see_charts(tab, "loss by batches: 2 curves")
    choice = tab.page.get_by_label("Metric", exact=True)
    choice.select_option(label="loss (validation and training)")
    tab.page.get_by_text("Thick lines: validation. Thin lines: training.").wait_for()
    see_charts(tab, "loss by batches: 4 curves")
    choice.select_option(label="All metrics")
    tab.page.get_by_role("heading", name="recall (test)").wait_for()
    tab.page.locator(".chart canvas").nth(2).wait_for()
    see_charts(
        tab,
        "loss by batches: 4 curves",
        "accuracy by batches: 2 curves",
        "recall by batches: 2 curves",
    )
    tab.page.get_by_role("button", name="Charts").click()
    tab.page.get_by_role("menuitemcheckbox", name="recall (test)").click()
    tab.page.get_by_role("heading", name="recall (test)").wait_for(state="detached")
    tab.page.keyboard.press("Escape")
    tab.page.reload()
    tab.page.get_by_role("heading", name="accuracy (test)").wait_for()
    tab.page.locator(".chart canvas").nth(1).wait_for()
    see_charts(tab, "loss by batches: 4 curves", "accuracy by batches: 2 curves")
    tab.look(390)
    assert tab.beyond() == 0
    assert tab.faults() == []


def rgb(colour: str) -> tuple[float, ...]:
    """Return the linear parts of a colour."""
    parts = [int(part, 16) / 255 for part in re.findall("[0-9a-f]{2}", colour)]
    return tuple(p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    light, dark = sorted(
        (0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (one, other)), reverse=True
    )
    return (light + 0.05) / (dark + 0.05)


def distance(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the distance of two colours as people see them, in the colour space Oklab."""
    pairs = zip(oklab(one), oklab(other), strict=True)
    return float(sum((a - b) ** 2 for a, b in pairs) ** 0.5)


def oklab(colour: tuple[float, ...]) -> list[float]:
    cones = weighted(_CONES, colour)
    return weighted(_LAB, [cone ** (1 / 3) for cone in cones])


def weighted(matrix: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    return [sum(w * v for w, v in zip(row, values, strict=True)) for row in matrix]


_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)
