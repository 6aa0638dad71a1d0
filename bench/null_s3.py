"""Serve a cheap substitute for S3: objects in memory, TLS, and a chosen delay for each answer.

`python bench/null_s3.py PORT DELAY_MS CERT KEY (keep|drop)`. It checks no signatures, and supports only the requests of
checkpoints. It uses TLS because TLS is a large part of the cost of an upload to S3. With `drop` it discards uploads:
each connection has a process and one buffer, so that neither memory nor Python's lock slows down a fast client.
"""

import contextlib
import os
import re
import signal
import socket
import ssl
import sys
import threading
import time
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 1000
RECEIVED_AT_ONCE = 65536
# An object is the list of its parts, because joining them would cost more than the client under test.
Objects = dict[str, list[bytes]]


class Store:
    """Objects by path. Buckets are part of the path."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.objects: Objects = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.lock = threading.Lock()
        self.uploads = 0

    def receive(self, request: "Reader", length: int) -> bytes:
        return request.exactly(length)

    def answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(target)
        key, query = unquote(parts.path), parse_qs(parts.query, keep_blank_values=True)
        if method == "PUT":
            return self._put(key, query, body)
        if method == "POST":
            return self._post(key, query, body)
        if method == "GET" and "list-type" in query:
            return 200, {}, self._page(key, query)
        if method == "DELETE":
            self.objects.pop(key, None)
            return 204, {}, b""
        return self._get(method, key, headers)

    def _put(
        self, key: str, query: dict[str, list[str]], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        if "uploadId" in query:
            self.parts[query["uploadId"][0]][int(query["partNumber"][0])] = body
        else:
            self.objects[key] = [body]
        return 200, {"ETag": '"0"'}, b""

    def _post(
        self, key: str, query: dict[str, list[str]], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        if "uploads" in query:
            with self.lock:
                self.uploads += 1
                upload = str(self.uploads)
            self.parts[upload] = {}
            xml = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>"
            return 200, {}, f"{xml}</InitiateMultipartUploadResult>".encode()
        if "delete" in query:
            for name in re.findall(rb"<Key>(.*?)</Key>", body):
                self.objects.pop(f"{key.rstrip('/')}/{name.decode()}", None)
            return 200, {}, b"<DeleteResult></DeleteResult>"
        parts = self.parts.pop(query["uploadId"][0])
        self.objects[key] = [parts[n] for n in sorted(parts)]
        return 200, {}, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>"

    def _get(
        self, method: str, key: str, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        parts = self.objects.get(key)
        if parts is None:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        byte_range = re.match(r"bytes=(\d+)-(\d+)", headers.get("range", ""))
        if not byte_range:
            return 200, {"ETag": '"0"'}, parts[0] if len(parts) == 1 else b"".join(parts)
        start, total = int(byte_range[1]), sum(map(len, parts))
        end = min(int(byte_range[2]), total - 1)
        return 206, {"Content-Range": f"bytes {start}-{end}/{total}"}, _cut(parts, start, end + 1)

    def _page(self, path: str, query: dict[str, list[str]]) -> bytes:
        root = path.rstrip("/") + "/"
        prefix = root + query.get("prefix", [""])[0]
        after = query.get("continuation-token", [""])[0]
        keys = sorted(k for k in self.objects if k.startswith(prefix) and k > after)
        rows = "".join(
            f"<Contents><Key>{escape(k[len(root) :])}</Key><Size>{sum(map(len, self.objects[k]))}</Size></Contents>"
            for k in keys[:PAGE]
        )
        more = len(keys) > PAGE
        token = (
            f"<NextContinuationToken>{escape(keys[PAGE - 1])}</NextContinuationToken>"
            if more
            else ""
        )
        is_truncated = "true" if more else "false"
        head = f"<ListBucketResult><IsTruncated>{is_truncated}</IsTruncated>"
        return f"{head}{token}{rows}</ListBucketResult>".encode()


def _cut(parts: list[bytes], start: int, end: int) -> bytes:
    """Return a range of the parts' bytes, without copying if it lies within one part."""
    pieces = []
    at = 0
    for part in parts:
        low, high = max(start - at, 0), min(end - at, len(part))
        if low < high:
            pieces.append(memoryview(part)[low:high])
        at += len(part)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)  # type: ignore[return-value]


class Sink(Store):
    """A store that confirms all uploads and discards them."""

    def receive(self, request: "Reader", length: int) -> bytes:
        request.skip(length)
        return b""

    def _put(
        self, key: str, query: dict[str, list[str]], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        return 200, {"ETag": '"0"'}, b""

    def _post(
        self, key: str, query: dict[str, list[str]], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        self.parts["1"] = {}
        return super()._post(key, {**query, "uploadId": ["1"]}, body)


class Reader:
    """Buffered input of one connection."""

    def __init__(self, tls: ssl.SSLSocket) -> None:
        self.tls = tls
        self.buffered = b""
        self.scratch = memoryview(bytearray(RECEIVED_AT_ONCE))

    def until(self, mark: bytes) -> bytes:
        while mark not in self.buffered:
            chunk = self.tls.recv(RECEIVED_AT_ONCE)
            if not chunk:
                raise EOFError("the client went away")
            self.buffered += chunk
        data, _, self.buffered = self.buffered.partition(mark)
        return data

    def exactly(self, length: int) -> bytes:
        body = bytearray(length)
        view, count = memoryview(body), min(length, len(self.buffered))
        view[:count], self.buffered = self.buffered[:count], self.buffered[count:]
        while count < length:
            count += self._received(view[count:])
        return bytes(body) if length < 1 << 20 else body  # type: ignore[return-value]

    def skip(self, length: int) -> None:
        buffered = min(length, len(self.buffered))
        self.buffered = self.buffered[buffered:]
        remaining, receive, scratch = length - buffered, self.tls.recv_into, self.scratch
        while remaining:
            count = receive(
                scratch, RECEIVED_AT_ONCE if remaining > RECEIVED_AT_ONCE else remaining
            )
            if not count:
                raise EOFError("the client went away")
            remaining -= count

    def _received(self, target: memoryview) -> int:
        count = self.tls.recv_into(target)
        if not count:
            raise EOFError("the client went away")
        return count


def serve_connection(connection: socket.socket, context: ssl.SSLContext, store: Store) -> None:
    with context.wrap_socket(connection, server_side=True) as tls:
        tls.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = Reader(tls)
        with contextlib.suppress(EOFError, OSError):
            while True:
                serve_request(request, store)


def serve_request(request: Reader, store: Store) -> None:
    first, *lines = request.until(b"\r\n\r\n").decode().split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    if headers.get("expect") == "100-continue":
        request.tls.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding") == "chunked":
        body = receive_chunks(request, store)
    else:
        body = store.receive(request, int(headers.get("content-length") or 0))
    method, target, _ = first.split(" ")
    status, extra, answer = store.answer(method, target, headers, body)
    time.sleep(store.delay_s)
    extra["Content-Length"] = str(len(answer))
    fields = "".join(f"{k}: {v}\r\n" for k, v in extra.items())
    request.tls.sendall(f"HTTP/1.1 {status} X\r\n{fields}\r\n".encode())
    if method != "HEAD" and len(answer):
        request.tls.sendall(answer)


def receive_chunks(request: Reader, store: Store) -> bytes:
    """Read a chunked body. boto3 sends chunks with its own checksums after the data."""
    body = bytearray()
    while True:
        length = int(request.until(b"\r\n").partition(b";")[0], 16)
        if length == 0:
            while request.until(b"\r\n"):
                continue
            return body  # type: ignore[return-value]
        body += store.receive(request, length)
        request.until(b"\r\n")


def serve_in_threads(listener: socket.socket, context: ssl.SSLContext, store: Store) -> None:
    while True:
        connection, _ = listener.accept()
        arguments = (connection, context, store)
        threading.Thread(target=serve_connection, args=arguments, daemon=True).start()


def serve_in_processes(listener: socket.socket, context: ssl.SSLContext, store: Store) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # none of them is waited for
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            serve_connection(connection, context, store)
            os._exit(0)
        connection.close()


def main(port: int, delay_ms: float, cert: str, key: str, what: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    listener = socket.create_server(("127.0.0.1", port), backlog=256)
    print("ready", flush=True)
    if what == "drop":
        serve_in_processes(listener, context, Sink(delay_ms / 1000))
    else:
        serve_in_threads(listener, context, Store(delay_ms / 1000))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:6])
