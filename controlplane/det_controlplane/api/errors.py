"""The error vocabulary at the edge: each has an HTTP status and the gRPC code clients of Determined read."""

import json


class ApiError(Exception):
    status = 500
    code = 13
    reason = "Internal"
    retry_after_s = 0  # 0 omits Retry-After

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_after_s)} if self.retry_after_s else {}

    def to_json(self) -> bytes:
        inner = {"code": self.code, "reason": self.reason, "error": self.message}
        return json.dumps({"error": inner}).encode()


class BadRequest(ApiError):
    status, code, reason = 400, 3, "InvalidArgument"


class FailedPrecondition(ApiError):
    status, code, reason = 400, 9, "FailedPrecondition"


class Unauthenticated(ApiError):
    status, code, reason = 401, 16, "Unauthenticated"


class PermissionDenied(ApiError):
    status, code, reason = 403, 7, "PermissionDenied"


class NotFound(ApiError):
    status, code, reason = 404, 5, "NotFound"


class MethodNotAllowed(ApiError):
    """Refuse a method that the path does not support. HTTP requires the list of supported methods in the answer."""

    status, code, reason = 405, 12, "Unimplemented"

    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(message)
        self._allowed = allowed

    @property
    def headers(self) -> dict[str, str]:
        return {"Allow": self._allowed}


class RequestTimeout(ApiError):
    status, code, reason = 408, 4, "DeadlineExceeded"


class Conflict(ApiError):
    status, code, reason = 409, 6, "AlreadyExists"


class UnsupportedMediaType(ApiError):
    status, code, reason = 415, 3, "InvalidArgument"


class TooLarge(ApiError):
    status, code, reason = 413, 8, "ResourceExhausted"


class TooMany(ApiError):
    """Refuse a request beyond the number that a caller may have at once; it fits when others have ended."""

    status, code, reason = 429, 8, "ResourceExhausted"
    retry_after_s = 5


class Unimplemented(ApiError):
    status, code, reason = 501, 12, "Unimplemented"


class Unavailable(ApiError):
    status, code, reason = 503, 14, "Unavailable"


class NotYet(ApiError):
    """Refuse a request that depends on something that has not happened yet: the caller tries again."""

    status, code, reason = 504, 4, "DeadlineExceeded"


class BadGateway(ApiError):
    status, code, reason = 502, 14, "Unavailable"
