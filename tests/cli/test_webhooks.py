"""`det webhook` against the real API."""

import pytest
from det_controlplane.ports.courier import Unsent
from det_controlplane.services.webhooks import delivery

from tests.cli.conftest import Det
from tests.support.api import Api
from tests.support.inbox import Inbox, end


@pytest.fixture
def api(api: Api) -> Api:
    api.ctx.courier = Inbox()
    return api


def test_webhook_is_created_tested_edited_and_deleted(api: Api, det: Det) -> None:
    result = det(
        "webhook", "create", "chat", "https://example.com", "--on", "error", "--on-log", "o{3}"
    )
    assert result.out == "Created webhook 1 'chat'. Try it: det webhook test 1\n"
    (row,) = [line for line in det("webhook", "list").out.splitlines() if "chat" in line]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells == [
        "1", "chat", "Uncategorized", "all", "error experiments, log lines with 'o{3}'", "yes", "default", "https://example.com",
    ]  # fmt: skip
    assert det("webhook", "test", "1").out == "Test message of webhook 1 delivered\n"
    assert det("webhook", "edit", "1", "--url", "https://example.org").code == 0
    assert "https://example.org" in det("webhook", "list").out
    assert det("webhook", "edit", "1", "--on", "completed", "--on-log", "o{3}").code == 0
    (row,) = [line for line in det("webhook", "list").out.splitlines() if "chat" in line]
    assert row.split("|")[4].strip() == "log lines with 'o{3}', completed experiments"
    assert det("webhook", "edit", "1", "--enabled", "false").code == 0
    assert "| no " in det("webhook", "list").out
    assert det("webhook", "edit", "1", "--on-budget").code == 0
    (row,) = [line for line in det("webhook", "list").out.splitlines() if "chat" in line]
    assert row.split("|")[4].strip() == "budgets"
    assert det("webhook", "edit", "1", "--on-deadline").code == 0
    (row,) = [line for line in det("webhook", "list").out.splitlines() if "chat" in line]
    assert row.split("|")[4].strip() == "deadlines in danger"
    error = det("webhook", "edit", "1", "--on-alert").err
    assert "alerts go to webhooks that experiments choose" in error
    assert "`det webhook create --specific`" in error
    assert det("webhook", "delete", "1").out == "Deleted webhook 1\n"
    assert "webhook 1 not found" in det("webhook", "test", "1").err


def test_deliveries_are_listed(api: Api, det: Det) -> None:
    det("webhook", "create", "chat", "https://example.com/T1", "--on", "completed")
    inbox = api.ctx.courier
    assert isinstance(inbox, Inbox)
    inbox.refusals["https://example.com/T1"] = Unsent("example.com answered with status 503")
    end(api.signed_in("determined"))
    delivery.run(api.ctx)
    (row,) = [line for line in det("webhook", "deliveries", "1").out.splitlines() if "503" in line]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[1:5] == [
        "experiment state change", "1", "1", "example.com answered with status 503",
    ]  # fmt: skip
    assert "webhook 9 not found" in det("webhook", "deliveries", "9").err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no events are selected"),
        (["--on-alert"], "--on-alert needs --specific"),
        (["--on", "error", "--cluster", "-w", "Uncategorized"], "not both"),
        (["--on", "error", "--cluster"], "only an administrator may manage webhooks of the whole"),
        (["--on", "error", "-w", "nowhere"], "nowhere"),
    ],
)
def test_invalid_webhook_options_are_rejected(
    api: Api, det: Det, options: list[str], message: str
) -> None:
    answer = det("webhook", "create", "chat", "https://example.com", *options)
    assert answer.code != 0
    assert message in answer.err


def test_edit_without_options_is_rejected(api: Api, det: Det) -> None:
    assert "nothing to change" in det("webhook", "edit", "1").err
