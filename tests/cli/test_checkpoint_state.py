"""What listings say of a checkpoint."""

import pytest
from det_cli.actions.experiments import checkpoint_state


@pytest.mark.parametrize(
    ("missing", "told"), [(False, "COMPLETED"), (True, "COMPLETED, files missing")]
)
def test_a_checkpoint_whose_files_are_gone_is_named(missing: bool, told: str) -> None:
    assert checkpoint_state({"state": "STATE_COMPLETED", "filesMissing": missing}) == told
