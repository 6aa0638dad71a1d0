"""Sharded checkpoints of Lightning and transformers pass through `store_path(shard=True)` unchanged, over gloo."""

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import gang, ml, skips
from tests.support.moto import moto_server

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parent / "sharded_script.py"
FILES = {
    "lightning": {"lightning.ckpt/meta.pt", *(
        f"lightning.ckpt/{name}" for name in (".metadata", "__0_0.distcp", "__1_0.distcp")
    )},
    "transformers": {
        f"{folder}/{name}"
        for folder in ("pytorch_model_fsdp_0", "optimizer_0")
        for name in (".metadata", "__0_0.distcp", "__1_0.distcp")
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=["directory", "s3"])
def storage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A storage that ranks fill in place, and one for which they upload and download."""
    if request.param == "directory":
        folder = tmp_path_factory.mktemp("stored")
        yield json.dumps({"type": "directory", "container_path": str(folder)})
        return
    import boto3

    with moto_server("us-east-1") as endpoint:
        boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket="models")
        keys = {"access_key": "testing", "secret_key": "testing"}
        yield json.dumps({"type": "s3", "bucket": "models", "endpoint_url": endpoint, **keys})


@pytest.fixture(scope="module", params=list(FILES))
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def forks(framework: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ml.Forks]:
    modules = {
        "lightning": ("lightning.pytorch.strategies",),
        "transformers": ("accelerate", "transformers.models.bert.modeling_bert"),
    }[framework]
    with ml.forks(ml.require("ml"), tmp_path_factory.mktemp("forks"), *modules) as processes:
        yield processes


@pytest.mark.parametrize("machines", [1, 2])
def test_sharded_checkpoint_is_loaded_again_with_equal_values(
    framework: str, forks: ml.Forks, storage: str, tmp_path: Path, machines: int
) -> None:
    """A second machine has its own folder for temporary files. Storages are mounted on both, or are buckets."""
    if machines > 1 and os.geteuid():
        skips.skip("only root can mount a file system", skips.AS_ROOT)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    run = partial(gang.run, forks, SCRIPT, 2, machines=machines, TMPDIR=str(scratch))
    saved: Any = run(tmp_path / "saved", framework, storage)
    files = {path for path in saved["files"] if not path.endswith("/")}
    assert files == FILES[framework] | {"metadata.json"}
    loaded = run(tmp_path / "loaded", framework, storage, saved["uuid"])
    assert loaded["state"] == saved["state"]
