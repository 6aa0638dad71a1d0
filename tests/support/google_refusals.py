"""Errors of Google Cloud, as its APIs answer them."""

from typing import Any


class Refusal(Exception):
    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]
        self.status = status
        self.body: dict[str, Any] = {
            "error": {"code": status, "message": message, "details": details}
        }


def source_unreadable(builder: str = "det-lab-build@acme.iam.gserviceaccount.com") -> Refusal:
    """Return the answer of `builds.create` while the builder's account cannot read the source yet."""
    return Refusal(
        400,
        f"could not resolve source: googleapi: Error 403: {builder} does not have storage.objects.get access to the"
        " Google Cloud Storage object. Permission 'storage.objects.get' denied on resource (or it may not exist).,"
        " forbidden",
    )
