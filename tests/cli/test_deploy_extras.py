"""`det deploy` in an installation without the libraries of a cloud."""

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = "import sys; sys.modules[sys.argv.pop(1)] = None; from det_cli.main import main; sys.exit(main())"
VERBS = (
    ["up", "--cluster-id", "lab", "--dry-run"],
    ["down", "--cluster-id", "lab", "--yes"],
    ["status", "--cluster-id", "lab"],
    ["list"],
)


@pytest.mark.parametrize(
    ("library", "cloud", "where"),
    [
        ("google", "gcp", ()),
        ("google", "gcp", ("--project-id", "acme")),
        ("boto3", "aws", ("--region", "us-west-2")),
        ("botocore", "aws", ()),
    ],
    ids=["google", "google with a project", "boto3", "botocore"],
)
@pytest.mark.parametrize("verb", VERBS, ids=[verb[0] for verb in VERBS])
def test_reports_a_missing_library_with_the_command_that_installs_it(
    home: Path, library: str, cloud: str, where: tuple[str, ...], verb: list[str]
) -> None:
    command = [sys.executable, "-c", WITHOUT, library, "deploy", cloud, *verb, *where]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 1
    assert (
        f"is missing\n\nhint: run `pip install 'determined-serverless[{cloud}]'`" in result.stderr
    )
    assert "unexpected" not in result.stderr
