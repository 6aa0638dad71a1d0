"""A stand-in for S3 that costs little: objects in memory, TLS, a chosen delay per answer.

`python bench/null_s3.py PORT DELAY_MS CERT KEY`. It checks no signature and knows only what checkpoints need.
"""

import re
import socket
import ssl
import sys
import threading
import time
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 1000
# An object is the list of its parts: joining them would cost more than the client under test.
Objects = dict[str, list[bytes]]


class Store:
    """Buckets are not told apart: the path is the key."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.objects: Objects = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.lock = threading.Lock()
        self.uploads = 0

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
            for found in re.findall(rb"<Key>(.*?)</Key>", body):
                self.objects.pop(f"{key.rstrip('/')}/{found.decode()}", None)
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
        wanted = re.match(r"bytes=(\d+)-(\d+)", headers.get("range", ""))
        if not wanted:
            return 200, {"ETag": '"0"'}, parts[0] if len(parts) == 1 else b"".join(parts)
        start, total = int(wanted[1]), sum(map(len, parts))
        end = min(int(wanted[2]), total - 1)
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
        truncated = "true" if more else "false"
        head = f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated>"
        return f"{head}{token}{rows}</ListBucketResult>".encode()


def _cut(parts: list[bytes], start: int, end: int) -> bytes:
    """A range; without copying if it lies within one part."""
    pieces = []
    at = 0
    for part in parts:
        low, high = max(start - at, 0), min(end - at, len(part))
        if low < high:
            pieces.append(memoryview(part)[low:high])
        at += len(part)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)  # type: ignore[return-value]


def serve_connection(connection: socket.socket, context: ssl.SSLContext, store: Store) -> None:
    with context.wrap_socket(connection, server_side=True) as tls:
        tls.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffered = b""
        while True:
            while b"\r\n\r\n" not in buffered:
                chunk = tls.recv(65536)
                if not chunk:
                    return
                buffered += chunk
            head, _, buffered = buffered.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
            if headers.get("expect") == "100-continue":
                tls.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            if headers.get("transfer-encoding") == "chunked":
                body, buffered = _chunks(tls, buffered)
            else:
                body, buffered = _body(tls, int(headers.get("content-length") or 0), buffered)
            method, target, _ = first.split(" ")
            status, extra, answer = store.answer(method, target, headers, body)
            time.sleep(store.delay_s)
            extra["Content-Length"] = str(len(answer))
            fields = "".join(f"{k}: {v}\r\n" for k, v in extra.items())
            tls.sendall(f"HTTP/1.1 {status} X\r\n{fields}\r\n".encode())
            if method != "HEAD" and len(answer):
                tls.sendall(answer)


def _body(tls: ssl.SSLSocket, length: int, buffered: bytes) -> tuple[bytes, bytes]:
    if len(buffered) >= length:
        return buffered[:length], buffered[length:]
    body = bytearray(length)
    body[: len(buffered)] = buffered
    view, done = memoryview(body), len(buffered)
    while done < length:
        count = tls.recv_into(view[done:])
        if not count:
            raise ConnectionError("the client went away")
        done += count
    return bytes(body) if length < 1 << 20 else body, b""  # type: ignore[return-value]


def _chunks(tls: ssl.SSLSocket, buffered: bytes) -> tuple[bytes, bytes]:
    """What boto3 sends when it adds checksums of its own behind the body."""
    body = bytearray()
    while True:
        size, buffered = _until(tls, b"\r\n", buffered)
        length = int(size.partition(b";")[0], 16)
        if length == 0:
            trailer = size
            while trailer:
                trailer, buffered = _until(tls, b"\r\n", buffered)
            return body, buffered  # type: ignore[return-value]
        chunk, buffered = _body(tls, length, buffered)
        body += chunk
        _, buffered = _until(tls, b"\r\n", buffered)


def _until(tls: ssl.SSLSocket, mark: bytes, buffered: bytes) -> tuple[bytes, bytes]:
    while mark not in buffered:
        received = tls.recv(65536)
        if not received:
            raise ConnectionError("the client went away")
        buffered += received
    found, _, rest = buffered.partition(mark)
    return found, rest


def main(port: int, delay_ms: float, cert: str, key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    store = Store(delay_ms / 1000)
    listener = socket.create_server(("127.0.0.1", port), backlog=256)
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        arguments = (connection, context, store)
        threading.Thread(target=serve_connection, args=arguments, daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4])
