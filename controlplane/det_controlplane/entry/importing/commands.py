"""`det import`: move a Determined cluster into this one, and compare the two."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from det_controlplane.core.importing.options import BadOption, Options, parse_logs
from det_controlplane.core.schedule.wording import counted
from det_controlplane.db.engine.errors import (
    BadUrl,
    DatabaseDown,
    QueryFailed,
    TryAgain,
    Unstorable,
    Violated,
)
from det_controlplane.db.engine.migrate import MigrationError
from det_controlplane.db.importing import source, target
from det_controlplane.db.importing.source import NotDetermined, Source
from det_controlplane.db.importing.target import ImportRunning
from det_controlplane.entry.importing.dumps import BadDump, restored
from det_controlplane.entry.importing.mapping import BadFile, require_writable, write_mapping
from det_controlplane.entry.local import backup
from det_controlplane.entry.local.errors import LocalError
from det_controlplane.entry.local.files import LocalFiles, default_folder
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.importing import importing, plan, verify
from det_controlplane.services.importing.importing import Report, Result

_FAILURES = (
    NotDetermined, ImportRunning, BadDump, BadFile, BadOption, BadUrl, DatabaseDown, QueryFailed, Violated,
    Unstorable, TryAgain, MigrationError, Invalid, Missing, LocalError,
)  # fmt: skip
_SCHEMES = ("postgresql://", "postgres://")
_OK, _FAILED, UNFINISHED, _INTERRUPTED = 0, 1, 75, 130
_CONTINUES = "finished experiments stay imported; run the same command again to continue"
_REPORT_S = 60.0  # between lines of progress if the output is not a terminal


def main(action: str, args: Any) -> int:
    """Run an action: `determined` or `verify`. `args` has the flags of the command as attributes.

    Returns UNFINISHED if `args.limit_s` has passed before the end."""
    # The pool reports each lost connection with a traceback. The message of the error is enough.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
    try:
        if action == "verify":
            return _verify(args)
        return _plan(args) if args.dry_run else _import(args)
    except _FAILURES as e:
        _say(f"det import: {e}")
        return _FAILED
    except KeyboardInterrupt:
        _say("\nstopped: start the same command again to continue")
        return _INTERRUPTED


def _import(args: Any) -> int:
    options = _options(args)
    mapping = Path(args.mapping) if args.mapping else None
    if mapping is not None:
        require_writable(mapping)
    with _continuing() as progress, _target(args) as cluster, _source(args) as old:
        stop = _time_limit(args.limit_s)
        result = importing.run(old, cluster, options, _now, progress.show, stop)
        mapped = 0
        if mapping is not None and not result.remaining:
            mapped = write_mapping(mapping, old, cluster)
    if result.remaining:
        print(f"{result.remaining:,} experiments remain")
        return UNFINISHED
    if result.was_complete:
        _say("this cluster was imported before: `det import verify` compares the two")
    _say_result(result)
    if mapping is not None:
        print(f"{mapping} has the old and the new ids of {mapped:,} rows")
    return _OK


def _options(args: Any) -> Options:
    return Options(
        logs=parse_logs(args.logs), id_offset=args.id_offset, merge_users=args.merge_users, name=args.name
    )  # fmt: skip


def _time_limit(seconds: float) -> Callable[[], bool]:
    """Return a function that returns whether an import may continue. 0 seconds are no limit."""
    end = time.monotonic() + seconds if seconds else float("inf")
    return lambda: time.monotonic() < end


def _say_result(result: Result) -> None:
    counts = result.counts
    if not result.was_complete:
        print(
            f"imported {counts.experiments:,} experiments, {counts.trials:,} trials, {counts.metrics:,} reports of"
            f" metrics and {counts.logs:,} lines of logs"
        )
    offset = result.ids.offsets["experiments"]
    if offset:
        print(
            f"experiment N of the old cluster is experiment {offset:,} + N here, as are trials and models:"
            f" `det experiment describe old:{result.title}/N`"
        )
    for line in result.remarks.lines():
        print(f"- {line}")
    print("compare both clusters: det import verify SOURCE")


def _plan(args: Any) -> int:
    with _source(args) as old:
        options = _options(args)
        found = plan.look(old, options.logs.kind)
        conflict = ""
        if args.into or LocalFiles(_folder(args)).has_cluster():
            with _target(args) as cluster:
                conflict = plan.conflicts(old, cluster, options)
    for name, count in found.counts.items():
        print(f"{count:>14,} {name}")
    print(f"{found.metrics:>14,} reports of metrics (estimated)")
    print(f"{found.logs:>14,} lines of logs (estimated)")
    print(f"{found.bytes / 1e6:>14,.0f} MB of metrics and logs in the source")
    if found.paused:
        listed = ", ".join(str(id) for id in found.paused[:10]) + (
            ", …" if len(found.paused) > 10 else ""
        )
        print(
            f"- {counted(len(found.paused), 'experiment')} without an end, moving paused: {listed}"
        )
    for text in (*filter(None, [conflict]), *found.canceled, *found.absent):
        print(f"- {text}")
    if found.unknown:
        print(
            f"- tables and columns that this version does not know, and that do not move:"
            f" {', '.join(found.unknown)}"
        )
    print(f"about {_duration(found.seconds)} on two cores; nothing was changed")
    return _OK


def _verify(args: Any) -> int:
    with _target(args) as cluster, _source(args) as old:
        figures = verify.compare(old, cluster)
    width = max(len(each.what) for each in figures)
    print(f"{'':{width}}  {'source':>16}  {'here':>16}")
    for each in figures:
        note = "" if each.equal else "  differs"
        print(f"{each.what:{width}}  {each.there:>16}  {each.here:>16}{note}")
    different = [each.what for each in figures if not each.equal]
    if different:
        _say(f"det import: {len(different)} figures differ: {', '.join(different)}")
    return _FAILED if different else _OK


@contextmanager
def _source(args: Any) -> Iterator[Source]:
    """Open the old cluster: a URL of its database, or a dump."""
    given = str(args.source)
    if "://" in given:
        if not given.startswith(_SCHEMES):
            raise BadDump(
                f"{given.partition(':')[0]} is no database of Determined: give postgresql://…"
            )
        with source.opened(given) as snapshot:
            yield snapshot
        return
    with restored(Path(given), _say) as url, source.opened(url) as snapshot:
        yield snapshot


@contextmanager
def _target(args: Any) -> Iterator[target.Target]:
    """Open the database of the cluster: of a URL, or of a cluster on this machine."""
    if args.into:
        with target.opened(args.into) as cluster:
            yield cluster
        return
    folder = _folder(args)
    files = LocalFiles(folder)
    if not files.has_cluster():
        raise LocalError(
            f"there is no local cluster in {folder}: start it with `det deploy local cluster-up`,"
            " or give the URL of a cluster's database with --into"
        )
    with backup.opened_database(files) as url, target.opened(url) as cluster:
        yield cluster


def _folder(args: Any) -> Path:
    return Path(args.data_dir) if args.data_dir else default_folder(args.cluster_name)


class _Progress:
    """Shows the share of experiments, the rate and the remaining time: a bar on a terminal, else a line a minute."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: int | None = None
        self._next_line = self._began + _REPORT_S
        self._is_terminal = sys.stderr.isatty()

    @property
    def has_begun(self) -> bool:
        return self._first is not None

    def show(self, report: Report) -> None:
        if self._first is None:
            self._first = report.done
        now = time.monotonic()
        if not report.all or (not self._is_terminal and now < self._next_line):
            return
        self._next_line = now + _REPORT_S
        passed = now - self._began
        rows = report.counts.metrics + report.counts.logs
        rest = ""
        if report.done > self._first:
            rest = f", {_duration(passed / (report.done - self._first) * (report.all - report.done))} left"
        line = f"{report.done:,} of {report.all:,} experiments, {rows / max(passed, 0.001):,.0f} rows/s{rest}"
        if not self._is_terminal:
            _say(line)
            return
        share = round(20 * report.done / report.all)
        sys.stderr.write(f"\r[{'#' * share:20}] {line}   ")
        sys.stderr.flush()

    def end(self) -> None:
        if self._is_terminal and self.has_begun:
            sys.stderr.write("\n")


@contextmanager
def _continuing() -> Iterator[_Progress]:
    """Yield the progress of an import. Add to the error of a database that an import which has begun can continue."""
    progress = _Progress()
    try:
        yield progress
    except (DatabaseDown, TryAgain) as e:
        if not progress.has_begun:
            raise
        raise type(e)(f"{e}; {_CONTINUES}") from e
    finally:
        progress.end()


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
