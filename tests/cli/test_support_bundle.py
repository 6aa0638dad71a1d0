"""`det trial support-bundle` against the real API."""

import tarfile
from pathlib import Path

from tests.cli.conftest import Det
from tests.support.api import Api, create, trial_of


def test_bundle_contains_complete_logs_of_the_trial(api: Api, det: Det, tmp_path: Path) -> None:
    user = api.signed_in("determined")
    trial = trial_of(user, create(user))
    lines = [{"taskId": trial["taskId"], "log": f"line {n} ü\n"} for n in range(1200)]
    user.post("/api/v1/task/logs", {"logs": lines})
    result = det("trial", "support-bundle", trial["id"], "-o", tmp_path / "out")
    with tarfile.open(result.out.strip()) as tar:
        texts = {
            Path(m.name).name: tar.extractfile(m).read().decode()  # type: ignore[union-attr]
            for m in tar.getmembers()
        }
    assert set(texts) == {
        "trial.json", "experiment.json", "workloads.json", "master.json", "trial_logs.txt", "master_logs.txt",
    }  # fmt: skip
    written_lines = [line for line in texts["trial_logs.txt"].splitlines() if "line " in line]
    assert len(written_lines) == 1200
    assert written_lines[-1].endswith("line 1199 ü")
