"""STS and the metadata service of a machine on EC2. This STS checks signatures as AWS does."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


@dataclass
class Machine:
    """A machine on EC2: its metadata, and its role in STS."""

    instance_id: str = "i-0123456789abcdef0"
    account: str = "123456789012"
    region: str = "us-west-2"
    role: str = "agent"
    access_key: str = "ASIAEXAMPLEEXAMPLE00"
    secret_key: str = "secret"
    session: str = "c2Vzc2lvbg=="
    has_role: bool = True
    has_keys: bool = True  # the role's credentials
    document: str = ""  # instead of the right one
    session_name: str = ""  # of the role; the machine's id where EC2 assumed it

    @property
    def arn(self) -> str:
        name = self.session_name or self.instance_id
        return f"arn:aws:sts::{self.account}:assumed-role/{self.role}/{name}"

    @property
    def credentials(self) -> Credentials:
        return Credentials(self.access_key, self.secret_key, self.session)


@dataclass
class FakeAws:
    machine: Machine = field(default_factory=Machine)
    status: int = 200  # what STS answers instead, when it is another
    throttles: bool = False
    seen: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


@contextmanager
def fake_aws() -> Iterator[FakeAws]:
    """Serve STS at / and a metadata service at /latest."""
    aws = FakeAws()

    class Handler(_Handler):
        fake: ClassVar[FakeAws] = aws

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    aws.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield aws
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    fake: ClassVar[FakeAws]

    def log_message(self, *_: Any) -> None:
        return None

    def do_PUT(self) -> None:
        ttl_s = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        right = self.path == "/latest/api/token" and ttl_s
        self._answer(200 if right else 400, "metadata-token")

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != "metadata-token":
            return self._answer(401, "")
        machine = self.fake.machine
        documents = {
            "/latest/dynamic/instance-identity/document": machine.document
            or json.dumps(
                {
                    "instanceId": machine.instance_id,
                    "accountId": machine.account,
                    "region": machine.region,
                }
            )
        }
        if machine.has_role:
            roles = "/latest/meta-data/iam/security-credentials/"
            documents[roles] = machine.role
            keys = {"Code": "AssumeRoleUnauthorizedAccess"}
            if machine.has_keys:
                keys = {
                    "AccessKeyId": machine.access_key,
                    "SecretAccessKey": machine.secret_key,
                    "Token": machine.session,
                }
            documents[roles + machine.role] = json.dumps(keys)
        return self._answer(200 if self.path in documents else 404, documents.get(self.path, ""))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.fake.seen.append(dict(self.headers))
        if self.fake.status != 200:
            self.send_response(self.fake.status)
            self.send_header("Location", f"{self.fake.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        if self.fake.throttles:
            return self._answer(400, json.dumps({"Error": {"Code": "Throttling"}}))
        if not self._is_signed(body):
            error = {"Error": {"Code": "SignatureDoesNotMatch", "Message": "The signature …"}}
            return self._answer(403, json.dumps(error))
        result = {
            "Arn": self.fake.machine.arn,
            "Account": self.fake.machine.account,
            "UserId": "AROAEXAMPLE:session",
        }
        answer = {"GetCallerIdentityResponse": {"GetCallerIdentityResult": result}}
        return self._answer(200, json.dumps(answer))

    def _is_signed(self, body: str) -> bool:
        """Sign the received request with the machine's secret, and compare."""
        Authorization = self.headers["Authorization"]
        header_names = Authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        headers = {
            name: self.headers[name] for name in header_names if self.headers[name] is not None
        }
        request = AWSRequest("POST", f"https://{self.headers['Host']}/", data=body, headers=headers)
        request.context["timestamp"] = self.headers["X-Amz-Date"]
        machine = self.fake.machine
        region = Authorization.split("/")[2]
        auth = SigV4Auth(machine.credentials, "sts", region)
        canonical = auth.canonical_request(request)
        signature = auth.signature(auth.string_to_sign(request, canonical), request)
        return Authorization.endswith(f"Signature={signature}")

    def _answer(self, status: int, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
