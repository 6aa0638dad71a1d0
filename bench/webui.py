"""Measure the WebUI in Chromium: `python -m bench.webui`.

The figures are the first paint, bytes, frames a second, and the cost of an open page for the server. Without a graphics
card, the processor draws the frames. They are slower while other programs run.
"""

import gzip
import json
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from det_controlplane.db.engine.database import Database
from det_controlplane.entry.server.web_files import FOLDER, sent
from sqlalchemy import text

from bench import long_logs
from bench.api import CONFIG, FILE, Cluster, cost_ms, create, running
from bench.data import figure, trials_of
from bench.long_pages import fill
from tests.support import browser as browsers

EXPERIMENTS, TRIALS, MANY, POINTS, ROUNDS = 10_000, 100, 1_000, 10_000, 5
LOG_LINES = 1_000_000
SCROLLED = 500  # minimum number of lines that must arrive while frames are counted
SEARCH = "searcher: {{name: random, max_trials: {trials}, max_concurrent_trials: {trials},"
NAMES = text("UPDATE experiments SET name = name || ' ' || id")
MEASURES = text("""
    INSERT INTO metrics (trial_id, run_id, metric_group, total_batches, metrics, reported_at)
    SELECT t.id, 1, 'validation', n,
           json_build_object('loss', 1.0 / (1 + n / (50.0 + t.id % 97)) + (n * 7919 % 101) / 2000.0),
           now() + n * interval '1 second'
    FROM trials t, generate_series(1, cast(:points AS integer)) AS n
    WHERE t.experiment_id = :id
""")
SUMMARIES = text("""
    UPDATE trials SET total_batches = :points, searcher_metric = 0.1 + id / 1000.0,
        summary_metrics = '{"validation_metrics": {"loss": {"min": 0.1, "max": 1, "last": 0.1, "type": "number"}}}'
    WHERE experiment_id = :id
""")
# The page measures this itself, because a driver that polls adds its own time.
USABLE = """
    localStorage.setItem("signed-in", "1");
    new MutationObserver((_, me) => {
      if (!document.querySelector("tbody tr td a")) return;
      window.usable = performance.now();
      me.disconnect();
    }).observe(document, { childList: true, subtree: true });
"""
PAINTED = """() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime"""
ASKED = """() => performance.getEntriesByType("resource").length + 1"""
SENT = """() => [...performance.getEntriesByType("resource"), ...performance.getEntriesByType("navigation")]
    .filter((r) => new URL(r.name).pathname.startsWith("/det"))
    .reduce((sum, r) => sum + r.encodedBodySize, 0)"""
FRAMES = """([selector, act, seconds]) => new Promise((resolve) => {
    const element = document.querySelector(selector);
    const acts = {
      zoom: (n) => wheel(element, n % 60 < 30 ? -120 : 120, true),
      pan: (n) => wheel(element, n % 60 < 30 ? 40 : -40, false),
      scroll: () => { element.scrollTop += 120; },
      back: () => { element.scrollTop -= 300; },
    };
    const wheel = (e, delta, zooms) => {
      const box = e.getBoundingClientRect();
      e.dispatchEvent(new WheelEvent("wheel", {
        [zooms ? "deltaY" : "deltaX"]: delta, ctrlKey: zooms, shiftKey: !zooms, bubbles: true, cancelable: true,
        clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 }));
    };
    let frames = 0;
    let began = 0;
    const next = (now) => {
      began ||= now;
      if (now - began >= seconds * 1000) return resolve(((frames - 1) * 1000) / (now - began));
      acts[act](frames++);
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
})"""
FILTERED = """([asked, wanted]) => new Promise((resolve) => {
    const input = document.querySelector("input[type=search]");
    const began = performance.now();
    const seen = new MutationObserver(() => {
      if (document.querySelector(".head p").textContent !== wanted) return;
      seen.disconnect();
      requestAnimationFrame(() => resolve(performance.now() - began));
    });
    seen.observe(document.body, { childList: true, subtree: true, characterData: true });
    input.value = asked;
    input.dispatchEvent(new Event("input", { bubbles: true }));
})"""
MINUTES, STEP_MS, ANSWER_S = 10, 2_000, 0.05


def prepared(cluster: Cluster) -> int:
    """Fill a cluster without agents, and return a waiting experiment with many trials."""
    cluster.sign_in()
    create(cluster, activate=False)
    fill(cluster, EXPERIMENTS)
    experiment_id = searching(cluster, TRIALS)
    database = Database(cluster.database_url())
    with database.begin() as tx:
        tx.execute(NAMES)
        tx.execute(MEASURES, {"id": experiment_id, "points": POINTS})
        tx.execute(SUMMARIES, {"id": experiment_id, "points": POINTS})
    with database.autocommit() as tx:
        tx.execute(text("VACUUM (FULL, ANALYZE) experiments, jobs, trials"))
        tx.execute(text("ANALYZE metrics"))
    database.dispose()
    return experiment_id


def searching(cluster: Cluster, trials: int) -> int:
    config = CONFIG.replace("searcher: {name: single,", SEARCH.format(trials=trials))
    body = {"config": config, "modelDefinition": [FILE], "activate": True}
    return int(cluster.call("POST", "/api/v1/experiments", body)["experiment"]["id"])


class Visits:
    """Tabs with separate storage."""

    def __init__(self, browser: Any, cluster: Cluster) -> None:
        self._browser, self.base = browser, f"http://127.0.0.1:{cluster.port}"

    def page(self, *, width: int = 1280) -> Any:
        context = self._browser.new_context(viewport={"width": width, "height": 900})
        context.set_default_timeout(browsers.PATIENCE_MS)
        login = {"username": "determined", "password": ""}
        context.request.post(f"{self.base}/api/v1/auth/login", data=login)
        context.add_init_script(USABLE)
        return context.new_page()

    def open(self, page: Any, path: str) -> None:
        page.goto(f"{self.base}/det{path}", wait_until="commit")


def measure_loads(visits: Visits) -> None:
    paints, usable = [], []
    for _ in range(ROUNDS):
        page = visits.page()
        visits.open(page, "/experiments")
        page.locator("tbody tr td a").first.wait_for()
        paints.append(page.evaluate(PAINTED))
        usable.append(page.evaluate("window.usable"))
        sent_bytes, request_count = page.evaluate(SENT), page.evaluate(ASKED)
        page.context.close()
    figure("webui_first_paint", statistics.median(paints), "ms", 1000, better="lower")
    figure("webui_usable", statistics.median(usable), "ms", 1500, better="lower")
    figure("webui_list_of_experiments_requests", request_count, "requests", 45, better="lower")
    figure("webui_list_of_experiments_sent", sent_bytes / 1000, "kB", 200, better="lower")
    everything = [f for f in FOLDER.rglob("*") if f.suffix in (".js", ".css", ".html", ".svg")]
    # Our style sheets are sent as one file.
    sheets = b"".join(sent(f) for f in everything if f.parent == FOLDER / "css")
    bodies = [sent(f) for f in everything if f.parent != FOLDER / "css"]
    total = sum(len(gzip.compress(body, 9)) for body in (*bodies, sheets))
    figure("webui_all_pages_packed", total / 1000, "kB", 350, better="lower")


def measure_curves(visits: Visits, experiment_id: int) -> None:
    page = visits.page()
    start = time.perf_counter()
    visits.open(page, f"/experiments/{experiment_id}?trials={TRIALS}")
    page.locator(".chart canvas").wait_for()
    figure("webui_100_curves_drawn", time.perf_counter() - start, "s", None, better="lower")
    for act in ("zoom", "pan"):
        rates = [page.evaluate(FRAMES, [".chart .u-over", act, 2]) for _ in range(3)]
        figure(f"webui_100_curves_{act}", max(rates), "frames/s", 55)
    page.context.close()


def measure_many_trials(visits: Visits, cluster: Cluster) -> None:
    """Open the table, the search and the hyperparameters of an experiment with a thousand trials."""
    cluster.reconnect()
    experiment_id = searching(cluster, MANY)
    database = Database(cluster.database_url())
    with database.begin() as tx:
        tx.execute(SUMMARIES, {"id": experiment_id, "points": POINTS})
    database.dispose()
    for part, selector in (("trials", "tbody tr td a"), ("search", ".trial-line")):
        waits = []
        for _ in range(ROUNDS):
            page = visits.page()
            start = time.perf_counter()
            visits.open(page, f"/experiments/{experiment_id}/{part}")
            page.locator(selector).first.wait_for()
            waits.append(time.perf_counter() - start)
            page.context.close()
        figure(f"webui_1000_trials_{part}", statistics.median(waits), "s", 2, better="lower")
    search = cluster.call("GET", f"/api/v1/experiments/{experiment_id}/search?whole=true")
    trials = cluster.call("GET", f"/api/v1/experiments/{experiment_id}/trials?limit={MANY}")
    for name, answer in (("", search), ("_as_api_lists", trials)):
        size = len(gzip.compress(json.dumps(answer).encode(), 6)) / 1000
        figure(f"webui_1000_trials_sent{name}", size, "kB", None, better="lower")


def measure_list(visits: Visits) -> None:
    page = visits.page()
    visits.open(page, "/experiments")
    page.locator("tbody tr td a").first.wait_for()
    rate = max(page.evaluate(FRAMES, [".table-scroll", "scroll", 2]) for _ in range(3))
    figure("webui_list_of_10000_scroll", rate, "frames/s", 55)
    waits = []
    # The names contain the ids. Each text matches a different number of experiments than the one before.
    for part in ("7", "77", "777", "8", "88", "888", "9", "99", "999"):
        count = sum(part in str(n) for n in range(1, EXPERIMENTS + 2))
        waits.append(page.evaluate(FILTERED, [part, f"{count:,} experiments"]))
    figure("webui_list_of_10000_filter", statistics.median(waits), "ms", 150, better="lower")
    page.context.close()


def measure_log(visits: Visits, cluster: Cluster) -> None:
    """Open a log of a million lines at its end and in its middle, and scroll back while earlier lines arrive."""
    cluster.reconnect()
    trial = trials_of(cluster)[0]
    long_logs.fill(cluster, trial["taskId"], LOG_LINES)
    page = visits.page()
    for name, query, line in (
        ("end", "", LOG_LINES),
        ("middle", "?at=2026-01-01T00:08:20Z", LOG_LINES // 2),
    ):
        start = time.perf_counter()
        visits.open(page, f"/trials/{trial['id']}/logs{query}")
        page.get_by_text(f"step {line}: ").first.wait_for()
        figure(f"webui_log_{name}", time.perf_counter() - start, "s", 2, better="lower")
    first = min(first_line(page), LOG_LINES // 2)
    rate = max(page.evaluate(FRAMES, [".logs", "back", 3]) for _ in range(3))
    # A log that does not load more lines could scroll at any rate.
    assert first_line(page) < first - SCROLLED, "no earlier lines arrived"
    figure("webui_log_scroll", rate, "frames/s", 55)
    line_count = page.locator(".log").count()
    figure("webui_log_lines_in_the_page", line_count, "lines", 6_000, better="lower")
    page.context.close()


def first_line(page: Any) -> int:
    """Return the number of the first line in a log's page."""
    content = page.locator(".log").first.text_content() or ""
    match = re.search(r"step (\d+): ", content)
    assert match, content
    return int(match[1])


def measure_open_page(visits: Visits, cluster: Cluster, experiment_id: int) -> None:
    """Count the requests of a page in ten minutes of its own clock without changes, then measure their cost."""
    page = visits.page()
    page.clock.install()
    visits.open(page, f"/experiments/{experiment_id}")
    page.locator(".chart canvas").wait_for()
    paths: list[str] = []
    for minute in (3, MINUTES):
        paths.clear()
        if minute == MINUTES:
            page.on("request", lambda r: paths.append(r.url.removeprefix(visits.base)))
        for _ in range(minute * 60_000 // STEP_MS):
            page.clock.run_for(STEP_MS)
            time.sleep(ANSWER_S)
    page.context.close()
    cluster.reconnect()
    pids = cluster.pids("api", "postgres")
    costs = {path: least_cost_ms(pids, cluster, path) for path in set(paths)}
    for path, cost in costs.items():
        print(f"# {paths.count(path)} × {cost:.2f} ms {path}", file=sys.stderr)
    ms_per_minute = sum(costs[path] for path in paths) / MINUTES
    figure("webui_open_page_cpu_a_minute", ms_per_minute, "ms", 5, better="lower")


def least_cost_ms(pids: list[int], cluster: Cluster, path: str) -> float:
    cluster.call("GET", path)
    return min(cost_ms(pids, lambda: cluster.call("GET", path)) for _ in range(3))


def main() -> None:
    with running() as cluster, browsers.chromium() as browser:
        load = Path("/proc/loadavg").read_text().split()[0]
        print(f"# load before: {load}", file=sys.stderr)
        experiment_id = prepared(cluster)
        print("# " + json.dumps({"experiment": experiment_id}), file=sys.stderr)
        visits = Visits(browser, cluster)
        measure_loads(visits)
        measure_list(visits)
        measure_curves(visits, experiment_id)
        measure_many_trials(visits, cluster)
        measure_log(visits, cluster)
        measure_open_page(visits, cluster, experiment_id)


if __name__ == "__main__":
    main()
