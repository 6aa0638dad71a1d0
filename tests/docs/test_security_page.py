"""The tests that the security page names exist, and its figures match the code."""

import re

from det_agent import connection_limits, log_limits, request_bodies, settings
from det_controlplane.adapters import issuers
from det_controlplane.api import http
from det_controlplane.core import documents, patterns
from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.core.search import method
from det_controlplane.entry.relay import agents
from det_controlplane.entry.server import asgi, bodies, handshakes, protocol
from det_controlplane.services import searching
from det_controlplane.services.experiments import live
from det_controlplane.services.identity import sign_in

from tests.docs.test_links import DOCS, ROOT

_NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")

_HEADER = "| rule | test |\n|---|---|\n"
_FIXES = "| weakness | test |\n|---|---|\n"


def test_every_rule_names_its_test() -> None:
    page = (DOCS / "concepts/security.md").read_text("utf-8")
    tables = [part.split("\n\n")[0].splitlines() for part in page.split(_HEADER)[1:]]
    rows = [row.strip("| ").rsplit(" | ", 1) for table in tables for row in table]
    assert len(rows) > 100
    assert [rule for rule, tests in rows if not _cites(tests)] == []


def test_each_security_fix_of_later_versions_names_its_test() -> None:
    page = (DOCS / "concepts/security.md").read_text("utf-8")
    rows = page.split(_FIXES)[1].split("\n\n")[0].splitlines()
    assert len(rows) == 14
    assert [row for row in rows if not _cites(row.rsplit(" | ", 1)[1])] == []


def _cites(tests: str) -> bool:
    return len(_NAMED.findall(tests)) == 1


def test_named_tests_exist() -> None:
    functions = _NAMED.findall((DOCS / "concepts/security.md").read_text("utf-8"))
    assert len(functions) > 5
    assert [
        f"{path}::{test}" for path, test in functions if f"def {test}(" not in _source(path)
    ] == []


def _source(path: str) -> str:
    file = ROOT / "tests" / path
    return file.read_text("utf-8") if file.exists() else ""


_WORDS = {
    0.1: "a tenth",
    0.5: "half a second",
    1: "a",
    2: "two",
    4: "four",
    5: "five",
    6: "six",
    10: "ten",
}


def _mib(size: int) -> int:
    return size >> 20


def test_figures_match_the_code() -> None:
    """Tests of limits set smaller ones, so that they take little time."""
    page = " ".join((DOCS / "concepts/security.md").read_text("utf-8").split())
    cluster, many, word = ClusterConfig(), sign_in._PATIENCE_WITH_ADDRESS, _WORDS
    agent = {option.name: option.default for option in settings.OPTIONS}
    lines_s, bytes_s = agent["log_lines_per_second"], agent["log_bytes_per_second"]
    figures = (
        f"waits after {word[sign_in.FREE_ATTEMPTS]} attempts",
        f"after {many.free} failed attempts in an hour, {word[many.longest_s]} seconds at most",
        f"at most {protocol.LARGEST_HEADERS >> 10} KiB of headers",
        f"at most {http.STRANGERS_BODY >> 10} KiB of a body before it knows the caller",
        f"{_mib(http.MAX_BODY)} MiB with an experiment or another launch, {_mib(http.REPORT_BODY)} MiB with a report",
        f"logs or metadata, {_mib(http.FORM_BODY)} MiB otherwise",
        f"Bodies above 64 KiB together have {_mib(bodies.ROOM)} MiB",
        f"signed uploads from one address have {_mib(bodies.SHARE)} MiB",
        f"{bodies.FIRST_S // 60:.0f} minute for the first".replace("1", word[1]),
        f"{bodies.LEAST_BYTES_S >> 10} KiB a second for the rest",
        f"rejects JSON with more than {documents.MOST_JSON_VALUES:,} values",
        f"works on {word[asgi._LARGE_AT_ONCE]} large bodies at once",
        f"A request to a task ends after {word[agents.PATIENCE_S / 60]} minutes",
        f"A process takes {protocol._MOST_CONNECTIONS:,} connections",
        f"before their handshake count, and have {word[handshakes.HANDSHAKE_S]} seconds",
        f"One address has {cluster.max_connections_per_address:,} connections",
        f"A user sends {cluster.max_uploads_per_day >> 30} GiB of code within 24 hours",
        f"begins with {method.MOST_AT_ONCE:,} trials at most",
        f"trials of a search have {_mib(live.MOST_HPARAMS)} MiB together",
        f"take {asgi._OF_ONE_CALLER} of the {asgi._THREADS} threads",
        f"A user has {cluster.max_streams_per_user} streams open at once",
        f"each expression has {word[patterns.PATTERN_S]} of a processor, and all together {word[patterns.LOOK_S]}",
        f"Tasks of one request share {word[searching.ALL_S]} seconds",
        f"After {word[log_limits.SEARCH_S]} seconds of processor time, "
        f"the search of a task's lines has {word[log_limits.SEARCH_RATE]} of a processor",
        f"above {lines_s:,.0f} lines or {bytes_s / 2**20:.0f} MiB a second, after a minute's worth",
        f"at most {word[issuers._AT_ONCE]} threads of the API waiting for providers",
        f"without a token have {request_bodies.MAX_TOKENLESS_BODY_BYTES >> 10} KiB for a request",
        f"does not know share {_mib(request_bodies.MAX_OTHERS_BYTES)} MiB of disk",
        f"a container has {connection_limits.MOST_OF_ONE_CONTAINER} connections to the gateway",
        f"all together have {connection_limits.MOST_CONNECTIONS:,}",
        f"strangers write {sign_in.MOST_REFUSALS} of them an hour at most",
    )
    assert [figure for figure in figures if figure not in page] == []
    assert log_limits.BURST_S == 60
