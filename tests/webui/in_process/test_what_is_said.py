"""Pages show the present state, name buttons instead of commands, and keep them visible."""

import re
from typing import Any

import pytest

from tests.support.api import PASSWORD, config_of, create, create_ended, trial_of
from tests.support.browser import Tab, opened
from tests.support.house import House


def test_relative_times_are_updated_without_changes(tab: Tab, house: House) -> None:
    create_ended(house.admin, name="standing still")
    tab.page.clock.install()
    tab.open("/experiments?q=standing+still")
    row = tab.page.locator("tbody tr")
    row.get_by_text("just now").wait_for()
    tab.page.clock.fast_forward("02:00:00")
    row.get_by_text(re.compile(r"2\sh ago")).wait_for()


def test_paused_experiment_names_the_resume_button(tab: Tab, house: House) -> None:
    experiment_id = house.experiment(house.admin, house.red_project)
    tab.open(f"/experiments/{experiment_id}")
    notice = tab.page.locator(".notice")
    notice.get_by_text("The experiment is paused; select “Resume” to continue.").wait_for()
    trial = trial_of(house.admin, experiment_id)
    tab.open(f"/trials/{trial['id']}")
    notice.get_by_text("select “Resume” on its experiment to continue").wait_for()


def test_waiting_trial_is_shown_beside_running_trials(tab: Tab, house: House) -> None:
    experiment_id = create(house.admin, activate=True)
    runs = {"state": "RUNNING", "sentence": "runs on one"}
    waits = {"state": "QUEUED", "sentence": "needs 1 slot; none is free"}
    reasons = [{"trialId": 1, **runs}, {"trialId": 2, **runs}, {"trialId": 3, **waits}]
    tab.page.route("**/api/v1/why/experiment/*", lambda r: r.fulfill(json={"reasons": reasons}))
    tab.open(f"/experiments/{experiment_id}")
    tab.page.get_by_text(
        "2 trials running, 1 queued. Trial 3 needs 1 slot; none is free."
    ).wait_for()


def test_failure_shows_its_cause_and_folds_the_details(tab: Tab, house: House) -> None:
    experiment_id = create(house.admin, activate=True)
    house.admin.post(f"/api/v1/experiments/{experiment_id}/kill")
    reason = {
        "trialId": None, "state": "ERROR", "sentence": "has failed: No module named 'numppy'",
        "cause": "No module named 'numppy'", "details": "trial 7: exit code: 1", "failedTrialId": 7,
        "needsNewCode": True, "nextStep": "fix the code and create it again",
    }  # fmt: skip
    tab.page.route("**/api/v1/why/*/*", lambda r: r.fulfill(json={"reasons": [reason]}))

    def fail(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        body["experiment"] |= {"state": "STATE_ERROR"}
        route.fulfill(json=body)

    tab.page.route(f"**/api/v1/experiments/{experiment_id}", fail)
    tab.open(f"/experiments/{experiment_id}")
    notice = tab.page.locator(".notice.red")
    notice.get_by_text("No module named 'numppy'.", exact=True).wait_for()
    details = notice.get_by_text("trial 7: exit code: 1")
    assert not details.is_visible()
    notice.get_by_text("Details").click()
    details.wait_for()
    notice.get_by_text("Next step: fix the code and create it again. Another run").wait_for()
    link = notice.get_by_role("link", name="View logs").get_attribute("href")
    assert link is not None
    assert link.endswith(f"/experiments/{experiment_id}/logs?trial=7")


def test_pausing_replaces_the_undo_message_of_resuming(tab: Tab, house: House) -> None:
    experiment_id = house.experiment(house.admin, house.red_project)
    tab.open(f"/experiments/{experiment_id}")
    tab.page.get_by_role("button", name="Resume").click()
    tab.page.get_by_text(f"Resumed experiment {experiment_id}").wait_for()
    tab.page.get_by_role("button", name="Pause").click()
    tab.page.get_by_text(f"Paused experiment {experiment_id}").wait_for()
    assert tab.page.locator(".toast").count() == 1


def test_search_picture_marks_a_queued_trial_as_not_begun(tab: Tab, house: House) -> None:
    experiment_id = create(house.admin, activate=True)
    tab.open(f"/experiments/{experiment_id}/search")
    tab.page.locator(".trial-value").get_by_text("not started", exact=True).wait_for()


def test_wrong_password_has_a_plain_error_message(browser: Any, base: str) -> None:
    with opened(browser, base, signed_in=False) as tab:
        tab.open("/")
        tab.sign_in("admin", "another")
        tab.page.get_by_text("Wrong user name or password.").wait_for()


@pytest.mark.parametrize("role", ["Viewer", "Editor"])
def test_users_without_the_right_do_not_see_costs(
    browser: Any, base: str, house: House, role: str
) -> None:
    house.person(f"poor-{role}", role, house.blue)
    with opened(browser, base, user=(f"poor-{role}", PASSWORD)) as tab:
        tab.open("/cluster")
        tab.page.get_by_text("Current cost").wait_for()
        assert tab.page.get_by_text("This month").count() == 0
        assert tab.complaints == []


def test_long_name_does_not_hide_other_columns(tab: Tab, house: House) -> None:
    create(house.admin, name="a-name-without-any-space_" * 5)
    tab.open("/experiments")
    tab.page.get_by_role("link", name="a-name-without").wait_for()
    beyond = tab.page.locator(".table-scroll").evaluate("e => e.scrollWidth - e.clientWidth")
    assert beyond == 0
    tab.page.set_viewport_size({"width": 2560, "height": 900})
    cut = tab.page.locator(".cut", has_text="a-name-without")
    assert cut.evaluate("e => e.scrollWidth - e.clientWidth") == 0, "there is room for all of it"


def test_long_sentence_does_not_cut_the_name(tab: Tab, house: House) -> None:
    create(house.admin, name="waits beside a sentence", activate=True)
    reasons = [{"trialId": 1, "state": "QUEUED", "sentence": "needs what nobody has; " * 8}]
    tab.page.route("**/api/v1/why/experiment/*", lambda r: r.fulfill(json={"reasons": reasons}))
    tab.open("/dashboard")
    running = tab.page.get_by_role("region", name="Your running experiments")
    running.get_by_text("needs what nobody has").first.wait_for()
    name = running.locator(".cut", has_text="waits beside a sentence")
    assert name.evaluate("e => e.scrollWidth - e.clientWidth") == 0
    assert running.evaluate("e => e.scrollWidth - e.clientWidth") == 0


def test_end_of_the_log_is_visible(tab: Tab, house: House) -> None:
    experiment_id = house.experiment(house.admin, house.red_project)
    tab.open(f"/experiments/{experiment_id}/logs")
    log = tab.page.get_by_role("log")
    log.wait_for()
    tab.page.locator(".notice").wait_for()
    tab.page.wait_for_function(
        "document.querySelector('.logs').getBoundingClientRect().bottom <= innerHeight"
    )


def test_code_page_first_shows_the_entrypoint(tab: Tab, house: House) -> None:
    code = [
        {"path": path, "type": 48, "mode": "420", "mtime": "0", "content": ""}
        for path in ("a.py", "train.py")
    ]
    request = {"config": config_of(), "activate": False, "modelDefinition": code}
    experiment_id = house.admin.post("/api/v1/experiments", request)["experiment"]["id"]
    tab.open(f"/experiments/{experiment_id}/code")
    tab.page.locator(".tree [aria-current=page]", has_text="train.py").wait_for()


@pytest.mark.parametrize("path", ["/webhooks/999999", "/compare?trials=999999"])
def test_page_of_a_missing_object_has_a_heading(browser: Any, base: str, path: str) -> None:
    with opened(browser, base, user=("admin", PASSWORD)) as tab:
        tab.open(path)
        tab.page.get_by_role("alert").get_by_text("not found").wait_for()
        assert tab.page.get_by_role("heading", level=1).count() == 1


def test_unknown_project_is_not_shown_as_empty(browser: Any, base: str) -> None:
    with opened(browser, base, user=("admin", PASSWORD)) as tab:
        tab.open("/experiments?project=999999")
        tab.page.get_by_role("alert").get_by_text("project 999999 not found").wait_for()
        tab.page.get_by_text("0 experiments").wait_for()
        assert tab.page.get_by_text("No experiments yet").count() == 0
