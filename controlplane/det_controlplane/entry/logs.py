"""The log of a process of the control plane. DET_LOG_FORMAT is json or text."""

import logging
from collections.abc import Mapping

from det_controlplane.core.json_log import FORMATS, JSON, TEXT, VARIABLE, JsonLines
from det_controlplane.entry.settings import BadSettings

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def log_to_stderr(environment: Mapping[str, str], text: str = _TEXT) -> None:
    """Write the log of this process to stderr: JSON on Cloud Run and text elsewhere, unless DET_LOG_FORMAT says it."""
    logging.basicConfig(level=logging.INFO)
    default = JSON if "K_SERVICE" in environment or "CLOUD_RUN_JOB" in environment else TEXT
    _format_handlers(environment, default, logging.Formatter(text))


def format_lambda_log(environment: Mapping[str, str]) -> None:
    """Change the handler that Lambda's runtime added. Lambda sends each line to CloudWatch."""
    if "AWS_LAMBDA_FUNCTION_NAME" in environment:
        _format_handlers(environment, JSON, None)


def _format_handlers(
    environment: Mapping[str, str], default: str, text: logging.Formatter | None
) -> None:
    """Set the formatter of the root's handlers. `text` is None if they have one for text."""
    chosen = environment.get(VARIABLE) or default
    if chosen not in FORMATS:
        raise BadSettings(f"{VARIABLE} is {chosen!r}: give {' or '.join(FORMATS)}")
    formatter = text
    if chosen == JSON:
        on_google = "K_SERVICE" in environment or "CLOUD_RUN_JOB" in environment
        project = environment.get("GOOGLE_CLOUD_PROJECT", "")
        formatter = JsonLines(severity=on_google, project=project)
    if formatter is not None:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(formatter)
