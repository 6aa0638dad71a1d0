"""Sessions with the methods of Determined's package: each returns the response itself, and not its JSON."""

import json as json_module
from typing import Any, Dict, Iterator, Mapping, Optional

from determined.common.api.certs import Cert
from determined.common.http import Session as Connection
from determined.common.http import error_from
from determined.common.master_address import canonical, chosen
from determined.common.sign_in import open_session


class Response:
    """A successful answer. Errors are raised, as `determined.common.api.errors` names them."""

    ok = True

    def __init__(self, status_code: int, headers: Mapping[str, str], content: bytes) -> None:
        self.status_code = status_code
        self.headers = dict(headers)
        self.content = content

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        return json_module.loads(self.content)

    def iter_lines(self) -> Iterator[bytes]:
        return iter(self.content.splitlines())


class BaseSession:
    """Requests to a cluster by the five methods of HTTP."""

    AUTH_HEADER = ""

    def __init__(self, master: str, cert: Optional[Cert], token: str = "") -> None:
        self.master = canonicalize_master_url(master)
        self.cert = cert
        headers = {self.AUTH_HEADER: f"Bearer {token}"} if self.AUTH_HEADER else {}
        bundle = cert.bundle if cert is not None else None
        self._connection: Connection = open_session(
            self.master,
            headers,
            cert_file=bundle if isinstance(bundle, str) else None,
            cert_name=cert.name if cert is not None else None,
            verify=bundle is not False,
        )

    def get(self, path: str, **options: Any) -> Response:
        return self._send("GET", path, **options)

    def delete(self, path: str, **options: Any) -> Response:
        return self._send("DELETE", path, **options)

    def post(self, path: str, **options: Any) -> Response:
        return self._send("POST", path, **options)

    def patch(self, path: str, **options: Any) -> Response:
        return self._send("PATCH", path, **options)

    def put(self, path: str, **options: Any) -> Response:
        return self._send("PUT", path, **options)

    def close(self) -> None:
        self._connection.close()

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Optional[Dict[str, Any]] = None,
        json: Any = None,
        data: Optional[str] = None,
        headers: Optional[Dict[str, Any]] = None,
        timeout: Optional[float] = None,
    ) -> Response:
        body = json if data is None else data.encode()
        target = f"/{path.lstrip('/')}"
        status, answered, content = self._connection.request_bytes(
            method, target, params=params, body=body, headers=headers, timeout_s=timeout
        )
        if status >= 300:
            raise error_from(status, content)
        return Response(status, answered, content)


class UnauthSession(BaseSession):
    """Requests without credentials."""

    def __init__(self, master: str, cert: Optional[Cert], max_retries: object = None) -> None:
        super().__init__(master, cert)


class Session(BaseSession):
    """Requests in the name of a user. `max_retries` is accepted; this package repeats requests by its own rules."""

    AUTH_HEADER = "Authorization"

    def __init__(
        self,
        master: str,
        username: str,
        token: str,
        cert: Optional[Cert],
        max_retries: object = None,
    ) -> None:
        super().__init__(master, cert, token)
        self.username = username
        self.token = token


class TaskSession(Session):
    """Requests with the token of a task."""

    AUTH_HEADER = "Grpc-Metadata-x-allocation-token"


def canonicalize_master_url(url: str) -> str:
    return canonical(url)


def get_default_master_url() -> str:
    """Return the address in DET_MASTER, or the one of a cluster on this machine."""
    return chosen()
