"""Build and send the request for a new experiment. A retry does not create a second experiment."""

import contextlib
import json
import os
import pathlib
from typing import Any, Dict, Iterable, Iterator, Optional, Union

from determined.common import context, context_upload
from determined.common.http import APIError, Session
from determined.common.otlp import caller_headers
from determined.common.pages import V1

PathLike = Union[str, "os.PathLike[str]"]


def body(
    session: Session,
    config: Union[PathLike, Dict[str, Any]],
    model_dir: Optional[PathLike],
    includes: Optional[Iterable[PathLike]],
) -> Dict[str, Any]:
    """Return the request for a new experiment. It contains the code, or the id of the uploaded code."""
    if isinstance(config, dict):
        text = json.dumps(config)
    else:
        text = pathlib.Path(config).read_text(encoding="utf-8")
        if not text.strip():
            raise ValueError(f"{os.fspath(config)} is empty")
    root = None if model_dir is None else os.fspath(model_dir)
    files = context.collect(root, [os.fspath(i) for i in includes or ()])
    return {"config": text, "activate": True, **context_upload.send(session, files)}


@contextlib.contextmanager
def naming(config: Union[PathLike, Dict[str, Any]]) -> Iterator[None]:
    """Add the path of the configuration file to the error if the cluster rejects the configuration."""
    try:
        yield
    except APIError as e:
        if isinstance(config, dict) or not e.message.startswith("invalid experiment configuration"):
            raise
        raise type(e)(e.status, f"{os.fspath(config)}: {e.message}") from e


def submit(session: Session, request: Dict[str, Any], key: str) -> Dict[str, Any]:
    """Create the experiment. If the response was lost, a retry returns the experiment of the first request."""
    once = {"Idempotency-Key": key, **caller_headers()}
    answer = session.post(f"{V1}/experiments", request, headers=once)
    return dict(answer["experiment"])
