"""AWS by moto, in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from moto.server import ThreadedMotoServer


@contextmanager
def moto_server() -> Iterator[str]:
    """Serve AWS, with credentials for it in the environment; gives its URL."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-west-2")
        yield f"http://{host}:{port}"
    server.stop()
