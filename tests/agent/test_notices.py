"""Notices of clouds reach the agent by the machine's metadata service."""

import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from det_agent.metadata import AwsMetadata, GcpMetadata
from det_agent.notices import AwsNotices, GcpNotices, rfc3339
from det_controlplane.core.agent_protocol import MachineSignal


class Service:
    """A metadata service that speaks IMDSv2 and Google's dialect."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.tokens: list[str] = []
        self.breaks_off = ""
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                assert self.path == "/latest/api/token"
                assert self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
                service.tokens.append(f"token {len(service.tokens)}")
                self._answer(200, service.tokens[-1])

            def do_GET(self) -> None:
                google = self.headers["Metadata-Flavor"] == "Google"
                if not google and self.headers["X-aws-ec2-metadata-token"] != service.tokens[-1]:
                    return self._answer(401, "")
                path = self.path.removeprefix("/latest/").removeprefix("/computeMetadata/v1/")
                value = service.values.get(path)
                if path == service.breaks_off:
                    self.send_response(200)
                    self.send_header("Content-Length", "100")
                    self.end_headers()
                    self.wfile.write(b"{")
                    return None
                return self._answer(404 if value is None else 200, value or "")

            def _answer(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"


@pytest.fixture
def service() -> Iterator[Service]:
    new_service = Service()
    threading.Thread(target=new_service.server.serve_forever, args=(0.01,), daemon=True).start()
    yield new_service
    new_service.server.shutdown()
    new_service.server.server_close()


def test_no_notice_gives_no_signal(service: Service) -> None:
    assert AwsNotices(AwsMetadata(f"http://{service.host}")).look() == ()
    service.values |= {"instance/preempted": "FALSE", "instance/maintenance-event": "NONE"}
    assert GcpNotices(GcpMetadata(service.host)).look() == ()


def test_aws_spot_interruption_has_its_deadline(service: Service) -> None:
    service.values["meta-data/spot/instance-action"] = (
        '{"action": "terminate", "time": "2026-01-01T00:02:00Z"}'
    )
    signals = AwsNotices(AwsMetadata(f"http://{service.host}")).look()
    assert signals == (MachineSignal("spot_interruption", "2026-01-01T00:02:00Z"),)


def test_aws_rebalance_and_maintenance_are_signals(service: Service) -> None:
    service.values["meta-data/events/recommendations/rebalance"] = (
        '{"noticeTime": "2026-01-01T00:00:00Z"}'
    )
    service.values["meta-data/events/maintenance/scheduled"] = (
        '[{"State": "active", "NotBefore": "2 Jan 2026 00:00:00 GMT"}, {"State": "completed"}]'
    )
    signals = AwsNotices(AwsMetadata(f"http://{service.host}")).look()
    assert signals == (
        MachineSignal("rebalance"),
        MachineSignal("maintenance", "2026-01-02T00:00:00Z"),
    )


def test_on_rebalance_stay_ignores_recommendations(
    service: Service,
) -> None:
    service.values["meta-data/events/recommendations/rebalance"] = '{"noticeTime": "now"}'
    metadata = AwsMetadata(f"http://{service.host}")
    assert [s.kind for s in AwsNotices(metadata).look()] == ["rebalance"]
    assert AwsNotices(metadata, "stay").look() == ()


@pytest.mark.parametrize(
    ("time", "read"),
    [
        ("2026-01-01T00:02:00Z", "2026-01-01T00:02:00Z"),
        ("2026-01-01T01:02:00+01:00", "2026-01-01T00:02:00Z"),
        ("21 Jan 2026 09:00:43 GMT", "2026-01-21T09:00:43Z"),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_ec2_times_are_converted_to_rfc_3339(time: str | None, read: str | None) -> None:
    assert rfc3339(time) == read


def test_google_preemption_and_maintenance_are_signals(service: Service) -> None:
    service.values |= {
        "instance/preempted": "TRUE",
        "instance/maintenance-event": "TERMINATE_ON_HOST_MAINTENANCE",
    }
    signals = GcpNotices(GcpMetadata(service.host)).look()
    assert [s.kind for s in signals] == ["spot_interruption", "maintenance"]


def test_google_preemption_ends_thirty_seconds_after_its_first_sight(service: Service) -> None:
    service.values["instance/preempted"] = "TRUE"
    notices = GcpNotices(GcpMetadata(service.host))
    begun = datetime.now(timezone.utc)
    (first,) = notices.look()
    assert first.deadline is not None
    left_s = (datetime.fromisoformat(first.deadline.replace("Z", "+00:00")) - begun).total_seconds()
    assert 25 < left_s < 30
    assert notices.look() == (first,), "the time does not move"


def test_expired_session_token_is_replaced(service: Service) -> None:
    metadata = AwsMetadata(f"http://{service.host}")
    service.values["meta-data/instance-id"] = "i-1"
    assert metadata.get("meta-data/instance-id") == "i-1"
    service.tokens.append("another, after a restart of the service")
    assert metadata.get("meta-data/instance-id") == "i-1"
    assert len(service.tokens) == 3


def test_invalid_json_is_an_error_of_the_service(service: Service) -> None:
    service.values["meta-data/spot/instance-action"] = "<html>"
    with pytest.raises(OSError, match="instance-action"):
        AwsNotices(AwsMetadata(f"http://{service.host}")).look()


@pytest.mark.parametrize("value", ["<html>", "[1]", '"terminate"'])
def test_invalid_notice_does_not_hide_other_notices(service: Service, value: str) -> None:
    """A machine that is reclaimed in two minutes must not wait for a broken event service."""
    service.values["meta-data/spot/instance-action"] = '{"action": "terminate"}'
    service.values["meta-data/events/recommendations/rebalance"] = value
    service.values["meta-data/events/maintenance/scheduled"] = "{}"
    signals = AwsNotices(AwsMetadata(f"http://{service.host}")).look()
    assert [signal.kind for signal in signals] == ["spot_interruption"]


@pytest.mark.parametrize(
    "path", ["meta-data/events/recommendations/rebalance", "instance/maintenance-event"]
)
def test_truncated_response_does_not_hide_other_notices(service: Service, path: str) -> None:
    service.breaks_off = path
    metadata = AwsMetadata(f"http://{service.host}"), GcpMetadata(service.host)
    look = AwsNotices(metadata[0]).look if path.startswith("meta") else GcpNotices(metadata[1]).look
    with pytest.raises(OSError, match="not readable"):
        look()
    service.values["meta-data/spot/instance-action"] = '{"action": "stop"}'
    service.values["instance/preempted"] = "TRUE"
    assert [signal.kind for signal in look()] == ["spot_interruption"]
