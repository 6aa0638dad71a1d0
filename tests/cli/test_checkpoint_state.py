"""The state of a checkpoint in lists."""

import pytest
from det_cli.actions.experiments import checkpoint_state


@pytest.mark.parametrize(
    ("missing", "text"), [(False, "COMPLETED"), (True, "COMPLETED, files missing")]
)
def test_the_state_reports_missing_files(missing: bool, text: str) -> None:
    assert checkpoint_state({"state": "STATE_COMPLETED", "filesMissing": missing}) == text
