"""A Terraform provider for Google Cloud with only its schema.

`python -m tests.support.google_provider SOCKET` serves it. With it, Terraform checks names, types, references and
required attributes of our modules, and plans them with `mock_provider` without the provider's binary. It checks no
values (enums, conflicts), and treats sets as lists. The messages of Terraform's plugin protocol 6 are written by
hand, because only a dozen fields are needed.
"""

import concurrent.futures
import gzip
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc

SCHEMA = Path(__file__).resolve().parent.parent / "terraform/google_schema.json.gz"
PROVIDER = ("project", "region", "zone", "credentials", "access_token")
# Nesting modes of the protocol.
_SINGLE, _LIST = 1, 2
_IDLE = (
    "ValidateProviderConfig",
    "ValidateResourceConfig",
    "ValidateDataResourceConfig",
    "ConfigureProvider",
    "StopProvider",
)

Json = Mapping[str, Any]


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _bytes(field: int, value: bytes | str) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value) if value else b""


def _attribute(name: str, attribute: Json) -> bytes:
    required, computed = attribute.get("required", False), attribute.get("computed", False)
    type_bytes = _bytes(1, name) + _bytes(2, json.dumps(attribute["type"]))
    optional = not required and not computed
    return type_bytes + _number(4, required) + _number(5, optional) + _number(6, not required)


def _block(block: Json) -> bytes:
    attributes = (_bytes(2, _attribute(n, a)) for n, a in sorted(block["attributes"].items()))
    return b"".join(attributes) + b"".join(
        _bytes(3, _nested(name, inner)) for name, inner in sorted(block["blocks"].items())
    )


def _nested(name: str, inner: Json) -> bytes:
    block_bytes = _bytes(1, name) + _bytes(2, _block(inner["block"]))
    if inner["nesting"] == "single":
        return block_bytes + _number(3, _SINGLE)
    most = _number(5, 1 if inner["nesting"] == "one" else 0)
    return block_bytes + _number(3, _LIST) + _number(4, inner["required"]) + most


def _schema(block: Json) -> bytes:
    return _bytes(2, _block(block))


def schema_answer(schemas: Json) -> bytes:
    """Return the message GetProviderSchema.Response."""
    own = {name: {"type": "string"} for name in PROVIDER}
    answer = _bytes(1, _schema({"attributes": own, "blocks": {}}))
    for field, kind in ((2, "resources"), (3, "data_sources")):
        for name, block in schemas[kind].items():
            answer += _bytes(field, _bytes(1, name) + _bytes(2, _schema(block)))
    return answer + _bytes(6, _number(1, 1))


def serve(socket: str) -> grpc.Server:
    answer = schema_answer(json.loads(gzip.decompress(SCHEMA.read_bytes())))
    methods = {name: _always(b"") for name in _IDLE} | {"GetProviderSchema": _always(answer)}
    unlimited = [("grpc.max_send_message_length", -1)]
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), options=unlimited)
    handler = grpc.method_handlers_generic_handler("tfplugin6.Provider", methods)
    server.add_generic_rpc_handlers([handler])
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server


def _always(answer: bytes) -> Any:
    return grpc.unary_unary_rpc_method_handler(lambda request, context: answer)


def reattach(socket: str) -> str:
    """Return TF_REATTACH_PROVIDERS for a provider that is served by this process."""
    address = {"Network": "unix", "String": socket}
    handshake = {"Protocol": "grpc", "ProtocolVersion": 6, "Pid": os.getpid(), "Test": True}
    return json.dumps({"hashicorp/google": {**handshake, "Addr": address}})


def main() -> None:
    server = serve(sys.argv[1])
    print(reattach(sys.argv[1]), flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
