"""The simulated world stores model definitions inline, so the object store must not be used."""


class NoObjects:
    def put(self, key: str, content: bytes) -> None:
        raise AssertionError(f"nothing of this world is large enough for the object store: {key}")

    def get(self, key: str) -> bytes | None:
        return None

    def size(self, key: str) -> int | None:
        return None

    def delete(self, key: str) -> None:
        return None

    def upload_url(self, key: str, size: int, expires_s: int) -> str:
        raise AssertionError(f"nothing of this world is uploaded: {key}")

    def download_url(self, key: str, expires_s: int) -> str:
        return ""
