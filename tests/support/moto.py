"""AWS by moto, in this process."""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import botocore.session
import pytest
from botocore.loaders import create_loader
from moto.moto_api._internal.models import moto_api_backend
from moto.server import ThreadedMotoServer

# Each session of boto3 looks for the descriptions of AWS's services in folders, and reads them: half a second for EC2,
# in hundreds of tests.
botocore.session.create_loader = functools.cache(create_loader)
# Otherwise each region begins with 1,299 images, which takes 0.04 s, hundreds of times.
os.environ["MOTO_AMIS_PATH"] = str(Path(__file__).with_name("amazon_images.json"))


@contextmanager
def moto_server(region: str = "us-west-2") -> Iterator[str]:
    """Serve an empty AWS with credentials in the environment. Yields its URL.

    Moto keeps all state in the process, so state must be reset for the next server."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", region)
        try:
            yield f"http://{host}:{port}"
        finally:
            server.stop()
            moto_api_backend.reset()
