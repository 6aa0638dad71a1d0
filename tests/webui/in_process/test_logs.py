"""Logs in the page: a long one to its beginning, times, texts, patterns, ranks, and all of it as a file."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.api import PASSWORD
from tests.support.browser import Tab, opened
from tests.support.house import House

MOST_IN_THE_PAGE = 6_000
LINES = 8_000  # two pages of a thousand more than that
LOOKS_MS = 100  # looking in every frame would cost as much as the page itself
# A second apart, over some hours of two days.
FILL = text("""
    INSERT INTO task_logs (task_id, rank_id, logged_at, level, source, stdtype, log)
    SELECT :task, n % 4, timestamptz '2026-01-01 22:00+0' + n * interval '1 second',
           CASE WHEN n % 1000 = 7 THEN 'LOG_LEVEL_ERROR' ELSE 'LOG_LEVEL_INFO' END, 'task', 'stdout',
           'line ' || n || CASE WHEN n % 1000 = 7 THEN ' <b>broke</b>' ELSE '' END
    FROM generate_series(0, cast(:last AS integer)) AS n
""")


EARLIER = re.compile(r"afterId=.*ORDER_BY_DESC")


@dataclass
class Log:
    tab: Tab

    def __post_init__(self) -> None:
        self.lines = self.tab.page.locator(".log-text")
        self.box = self.tab.page.get_by_role("log", name="Log lines")

    def see(self, line: str) -> None:
        self.tab.page.get_by_text(line, exact=True).wait_for()

    def at_end(self) -> None:
        """Wait until the last line is in sight."""
        self.tab.page.wait_for_function(
            "last => [...document.querySelectorAll('.log')].at(-1)?.getBoundingClientRect().bottom"
            " <= document.querySelector('.logs')?.getBoundingClientRect().bottom + 2"
            " && document.querySelector('.logs').textContent.includes(last)",
            arg=f"line {LINES - 1}",
            polling=LOOKS_MS,
        )

    def only(self, *lines: str) -> None:
        """Wait until exactly these lines are visible."""
        self.tab.page.wait_for_function(
            "wanted => [...document.querySelectorAll('.log-text')].map(e => e.textContent).join('|') === wanted",
            arg="|".join(lines),
            polling=LOOKS_MS,
        )

    def earlier_than(self, before: str | None) -> None:
        """Wait until lines before the first one have come."""
        self.tab.page.wait_for_function(
            "before => document.querySelector('.log-text').textContent !== before",
            arg=before,
            polling=LOOKS_MS,
        )

    def to_first(self) -> None:
        """Go to the first line in one step: by Home a browser takes several, and the last ones ask twice."""
        self.box.evaluate("box => { box.scrollTop = 0; }")

    def first_in_sight(self) -> str:
        line: str = self.box.evaluate(
            """box => [...box.querySelectorAll('.log')].find(
                (line) => line.getBoundingClientRect().bottom > box.getBoundingClientRect().top + 2
            ).querySelector('.log-text').textContent"""
        )
        return line


@pytest.fixture(scope="module")
def trial(house: House) -> int:
    experiment_id = house.experiment(house.admin, house.blue_project)
    house.admin.post(f"/api/v1/experiments/{experiment_id}/activate")
    (trial,) = house.admin.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    house.admin.post(f"/api/v1/experiments/{experiment_id}/kill")
    with house.api.ctx.db.begin() as tx:
        tx.execute(text("DELETE FROM task_logs WHERE task_id = :task"), {"task": trial["taskId"]})
        tx.execute(FILL, {"task": trial["taskId"], "last": LINES - 1})
    return int(trial["id"])


@pytest.fixture
def log(browser: Any, base: str, trial: int) -> Iterator[Log]:
    with opened(browser, base, user=("admin", PASSWORD)) as tab:
        tab.open(f"/trials/{trial}/logs")
        yield Log(tab)
        assert tab.complaints == []


def test_scrolling_a_long_log_up_and_down_shows_every_line(log: Log) -> None:
    log.at_end()
    page = log.tab.page
    end = page.get_by_text(f"line {LINES - 1}", exact=True)
    while end.count():
        before = log.lines.first.text_content()
        log.to_first()
        log.earlier_than(before)
        assert log.lines.count() <= MOST_IN_THE_PAGE
    # Lines that are on their way when the end is asked for belong to another place.
    page.route(EARLIER, lambda route: None)
    with page.expect_request(EARLIER):
        log.to_first()
    with page.expect_event("requestfailed", lambda request: EARLIER.search(request.url)):
        page.get_by_role("button", name="Jump to end").click()
    log.at_end()
    numbers = [int(line.removeprefix("line ").split()[0]) for line in log.lines.all_text_contents()]
    assert numbers == list(range(numbers[0], LINES))
    page.unroute(EARLIER)
    page.get_by_role("button", name="Jump to start").click()
    log.see("line 0")
    log.see("1 Jan 2026")


def test_visible_log_lines_stay_in_place_while_earlier_ones_load(log: Log) -> None:
    log.see(f"line {LINES - 1}")
    log.box.evaluate("box => { box.scrollTop = 700; }")
    first_line = log.first_in_sight()
    log.earlier_than(f"line {LINES - 1000}")
    assert log.first_in_sight() == first_line


def test_scrolling_causes_few_layouts(log: Log) -> None:
    log.at_end()
    steps = 60
    # A box with a watcher for each line is laid out in every frame.
    assert log.tab.layouts_of_scrolling(".logs", -100, steps) < steps / 2


def test_failed_requests_for_earlier_lines_are_retried_at_intervals(log: Log) -> None:
    log.at_end()
    page = log.tab.page
    requests: list[float] = []

    def note(request: Any) -> None:
        if EARLIER.search(request.url):
            requests.append(time.monotonic())

    page.on("request", note)
    # The page gives the route up by itself: `unroute` can wait forever for a request that is being aborted.
    page.route(EARLIER, lambda route: route.abort(), times=2)
    with page.expect_request(EARLIER):
        log.box.press("Home")
    page.get_by_role("alert").filter(has_text="is not responding").wait_for()
    page.wait_for_function("() => document.querySelectorAll('.log').length > 1000")
    assert len(requests) < 4
    assert requests[1] - requests[0] > 2
    assert page.get_by_role("alert").count() == 0
    log.tab.complaints[:] = [c for c in log.tab.complaints if "ERR_FAILED" not in c]


def test_log_is_shown_from_a_chosen_time(log: Log) -> None:
    log.see(f"line {LINES - 1}")
    # Fields of forms have the time of the place where their user is.
    there = log.tab.page.evaluate(
        """() => { const t = new Date("2026-01-01T23:00:05Z");
        return new Date(t - t.getTimezoneOffset() * 60000).toISOString().slice(0, 19); }"""
    )
    log.tab.page.get_by_label("From time").fill(there)
    log.see("line 3605")
    log.tab.page.wait_for_function("() => document.querySelectorAll('.log').length > 1000")
    assert log.first_in_sight() == "line 3605"
    assert "at=2026-01-01T23" in log.tab.page.url
    log.tab.page.reload()
    log.see("line 3605")
    assert log.tab.page.get_by_label("From time").input_value() == there


def test_log_lines_can_be_searched_by_text_pattern_level_and_rank(log: Log) -> None:
    page = log.tab.page
    page.get_by_label("Search in logs").fill("LINE 123")
    expected_numbers = [123, *range(1230, 1240)]
    log.only(*(f"line {n}" for n in expected_numbers))
    assert page.locator("mark").first.text_content() == "line 123"
    page.get_by_label("Ranks").fill("1, 2")
    log.only(*(f"line {n}" for n in expected_numbers if n % 4 in (1, 2)))
    page.get_by_label("Ranks").fill("")
    page.get_by_label("Search in logs").fill("^line 1(2|3)77$")
    log.only()
    page.get_by_text("No log lines match your filters.").wait_for()
    page.get_by_label("Regular expression").check()
    log.only("line 1277", "line 1377")
    page.get_by_label("Search in logs").fill("line (")
    page.get_by_role("alert").filter(has_text="searchText").wait_for()
    log.tab.complaints[:] = [c for c in log.tab.complaints if "400" not in c]
    page.get_by_label("Search in logs").fill("")
    page.get_by_label("Minimum level").select_option(label="Error and above")
    broken_lines = [f"line {n} <b>broke</b>" for n in range(7, LINES, 1000)]
    log.only(*broken_lines)
    assert page.locator(".logs b").count() == 0
    assert log.tab.faults() == []


def test_context_of_a_matching_line_can_be_shown(log: Log) -> None:
    log.tab.page.get_by_label("Search in logs").fill("line 5007")
    log.only("line 5007 <b>broke</b>")
    log.tab.page.locator(".logs[aria-busy=false]").wait_for()
    log.box.press("Enter")
    log.tab.page.wait_for_function("() => document.activeElement.matches('.log time')")
    log.box.get_by_title("show surrounding lines").press("Enter")
    log.see("line 5008")
    log.see("line 5006")
    assert log.tab.page.get_by_label("Search in logs").input_value() == ""


def test_matching_lines_can_be_saved_as_text(log: Log) -> None:
    log.see(f"line {LINES - 1}")
    for level, count in (("All levels", LINES), ("Error and above", LINES // 1000)):
        log.tab.page.get_by_label("Minimum level").select_option(label=level)
        with log.tab.page.expect_download() as downloading:
            log.tab.page.get_by_role("button", name="Download").click()
        assert re.fullmatch(r"trial-\d+\.log", downloading.value.suggested_filename)
        content = Path(downloading.value.path()).read_text("utf-8")
        assert content.count("\n") == count
        assert "line 7 <b>broke</b>\n" in content


def test_lines_with_equal_times_are_all_found_and_filtered(tab: Tab, house: House) -> None:
    experiment_id = house.experiment(house.admin, house.blue_project)
    house.admin.post(f"/api/v1/experiments/{experiment_id}/activate")
    (trial,) = house.admin.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    line = {"taskId": trial["taskId"], "timestamp": "2026-01-01T00:00:00Z"}
    lines = [{**line, "log": f"line {n}\n", "rankId": n % 2} for n in range(1100)]
    lines[7] |= {"level": "LOG_LEVEL_ERROR"}
    house.admin.post("/api/v1/task/logs", {"logs": lines[:1000]})
    house.admin.post("/api/v1/task/logs", {"logs": lines[1000:]})
    tab.open(f"/trials/{trial['id']}/logs")
    shown_lines = tab.page.locator(".log-text")
    tab.page.get_by_text("line 1099", exact=True).wait_for()
    # While new lines arrive, the visible ones stay.
    tab.page.locator(".logs[aria-busy=false]").press("Home")
    tab.page.get_by_text("line 0", exact=True).wait_for()
    tab.page.get_by_text("Start of log").wait_for()
    assert sum(text.startswith("line ") for text in shown_lines.all_text_contents()) == 1100
    tab.page.get_by_label("Minimum level").select_option(label="Error and above")
    shown_lines.nth(1).wait_for(state="detached")
    assert shown_lines.all_text_contents() == ["line 7"]
    tab.page.get_by_label("Minimum level").select_option(label="All levels")
    tab.page.get_by_label("Ranks").fill("1")
    tab.page.get_by_label("Search in logs").fill("line 109")
    shown_lines.filter(has_text=re.compile("^line 109$")).wait_for()
    shown_lines.nth(6).wait_for(state="detached")
    # Lines of odd ranks that contain "line 109".
    expected_numbers = [109, *range(1091, 1100, 2)]
    assert shown_lines.all_text_contents() == [f"line {n}" for n in expected_numbers]
    house.admin.post(f"/api/v1/experiments/{experiment_id}/kill")


def test_dropped_lines_are_marked_at_their_place_and_levels_have_letters(
    browser: Any, base: str, house: House
) -> None:
    experiment_id = house.experiment(house.admin, house.blue_project)
    (trial,) = house.admin.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    lines = [
        ("INFO", "before"),
        ("WARNING", "7,703 lines dropped here: log rate limit (9 lines per second) exceeded."),
        ("ERROR", "after"),
    ]
    with house.api.ctx.db.begin() as tx:
        for second, (level, line) in enumerate(lines):
            values = {"task": trial["taskId"], "level": f"LOG_LEVEL_{level}", "line": line}
            at = f"timestamptz '2026-01-01 00:00:0{second}+0'"
            tx.execute(
                text(
                    "INSERT INTO task_logs (task_id, logged_at, level, source, log)"
                    f" VALUES (:task, {at}, :level, 'agent', :line)"
                ),
                values,
            )
    with opened(browser, base, user=("admin", PASSWORD)) as tab:
        tab.open(f"/trials/{trial['id']}/logs")
        tab.page.get_by_text("after", exact=True).wait_for()
        rows = tab.page.locator(".log", has_text=re.compile("before|dropped here|after"))
        classes = [str(row.get_attribute("class")).split() for row in rows.all()]
        assert ["gap" in names for names in classes] == [False, True, False]
        signs = [row.locator("[role=img]").all_inner_texts() for row in rows.all()]
        assert signs == [[], ["W"], ["E"]]
        assert tab.page.get_by_role("img", name="Error").is_visible()
        assert tab.faults() == []
        tab.look(360)
        assert tab.page.get_by_role("img", name="Error").is_visible()
        assert tab.complaints == []


def test_notice_that_appears_leaves_the_log_in_place(browser: Any, base: str, house: House) -> None:
    """A notice without a key once replaced the parts of the page below it, with the search in the log."""
    experiment_id = house.experiment(house.admin, house.blue_project)
    (trial,) = house.admin.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    with opened(browser, base, user=("admin", PASSWORD)) as tab:
        held: list[Any] = []
        tab.page.route(re.compile("/why/trial/"), lambda route: held.append(route), times=1)
        tab.open(f"/trials/{trial['id']}/logs")
        box = tab.page.get_by_role("log", name="Log lines")
        box.evaluate("box => { box.dataset.mark = 'the same' }")
        assert tab.page.locator(".notice").count() == 0
        while not held:
            tab.page.wait_for_timeout(LOOKS_MS)
        held[0].continue_()
        tab.page.locator(".notice").wait_for()
        assert box.get_attribute("data-mark") == "the same"
