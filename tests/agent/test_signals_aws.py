"""An agent on EC2 hears that its machine is taken back."""

from collections.abc import Iterator

import pytest
from det_agent.signals_aws import Ec2Notices
from det_controlplane.core.agent_protocol import Signal

from tests.support.fake_sts import FakeAws, fake_aws


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    with fake_aws() as fake:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", fake.url)
        yield fake


def test_a_machine_that_stays_hears_nothing(aws: FakeAws) -> None:
    assert Ec2Notices().look() == []


def test_an_interruption_has_a_deadline(aws: FakeAws) -> None:
    notices = Ec2Notices()
    aws.notices["spot/instance-action"] = '{"action": "terminate", "time": "2026-11-22T12:02:00Z"}'
    assert notices.look() == [Signal("spot_interruption", "2026-11-22T12:02:00Z")]


def test_a_recommendation_to_leave_is_heard(aws: FakeAws) -> None:
    aws.notices["events/recommendations/rebalance"] = '{"noticeTime": "2026-11-22T12:00:00Z"}'
    assert Ec2Notices().look() == [Signal("rebalance")]


def test_notices_are_heard_after_the_token_expired(aws: FakeAws) -> None:
    notices = Ec2Notices()
    notices.look()
    aws.metadata_token = "another"
    aws.notices["events/recommendations/rebalance"] = "{}"
    assert notices.look() == [Signal("rebalance")]


def test_a_silent_service_is_an_error_and_no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(OSError, match=r"refused|unreachable"):
        Ec2Notices().look()


def test_what_is_no_notice_is_an_error(aws: FakeAws) -> None:
    aws.notices["spot/instance-action"] = "[]"
    with pytest.raises(OSError, match="not EC2's"):
        Ec2Notices().look()
