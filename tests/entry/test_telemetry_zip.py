"""The zip of a cluster on AWS that sends traces."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from det_controlplane.entry.aws import packaging

from tests.support.otlp_receiver import Receiver, otlp_receiver

pytestmark = pytest.mark.heavy("packs OpenTelemetry's SDK")

MIB = 1024**2
SEND = """
import sys
sys.path.append(sys.argv[1])
from datetime import datetime, timezone
from det_controlplane.adapters.otlp_spans import spans_of
from det_controlplane.core.config.telemetry import Telemetry
from det_controlplane.core.trace_context import Span, TraceContext
now = datetime.now(timezone.utc)
spans = spans_of({}, Telemetry(sys.argv[2]))
span = Span(TraceContext("1" * 32, "2" * 16), "", "from the zip", "api", now, now)
spans.add(span)
spans.flush()
print(spans.send([span]), "google.cloud" in sys.modules)
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("zips")
    package = packaging.build(out, telemetry=True)
    assert package.stat().st_size < 40 * MIB
    with zipfile.ZipFile(package) as archive:
        archive.extractall(out / "task")
    return out / "task"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with otlp_receiver() as receiver:
        yield receiver


def test_function_sends_spans_with_the_packages_of_its_zip(task: Path, receiver: Receiver) -> None:
    command = [sys.executable, "-I", "-S", "-c", SEND, str(task), receiver.url]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.stdout.split() == ["True", "False"], result.stderr
    assert result.stderr == ""
    assert len(receiver.named("from the zip")) == 2
