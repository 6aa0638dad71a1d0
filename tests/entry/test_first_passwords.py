"""The first passwords at the start of a control plane."""

from dataclasses import replace
from pathlib import Path

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.entry.build import build_context
from det_controlplane.entry.settings import BadSettings, Settings


@pytest.mark.parametrize("given_by", ["setting", "configuration"])
def test_public_server_rejects_an_empty_first_password(
    database_url: str, tmp_path: Path, given_by: str
) -> None:
    settings = Settings(
        database_url, objects=str(tmp_path), objects_secret="s", public=True,
        initial_user_password="" if given_by == "setting" else None,
        cluster_config='{"security": {"initial_user_password": ""}}' if given_by == "configuration" else "",
    )  # fmt: skip
    with pytest.raises(BadSettings, match="initial password is empty"):
        build_context(settings, LocalNotifier())
    build_context(replace(settings, public=False), LocalNotifier()).db.dispose()
