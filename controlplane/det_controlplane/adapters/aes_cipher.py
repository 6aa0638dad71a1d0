"""AES-256-GCM with keys that are derived from the operator's keys (docs/concepts/security.md#keys)."""

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence

from det_controlplane.ports.cipher import CannotOpen

_PURPOSE = b"determined-serverless secrets of configurations, 1"
_NONCE = 12


class AesCipher:
    """Encrypt with the first key and decrypt with any key, so that operators can replace a key."""

    def __init__(self, materials: Sequence[str]) -> None:
        keys = [hmac.digest(m.encode(), _PURPOSE, "sha256") for m in materials]
        self._keys = {hashlib.sha256(key).hexdigest()[:8]: key for key in keys}
        self._first = next(iter(self._keys))

    def seal(self, content: bytes) -> str:
        # Imported late, because most processes never encrypt or decrypt.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE)
        sealed = AESGCM(self._keys[self._first]).encrypt(nonce, content, _PURPOSE)
        return f"1.{self._first}.{base64.b64encode(nonce + sealed).decode()}"

    def open(self, sealed: str) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        version, name, text = (*sealed.split("."), "", "", "")[:3]
        key = self._keys.get(name)
        if version != "1" or key is None:
            raise CannotOpen(f"the key {name!r} that secrets were encrypted with is not given")
        try:
            raw = base64.b64decode(text, validate=True)
            return AESGCM(key).decrypt(raw[:_NONCE], raw[_NONCE:], _PURPOSE)
        except (ValueError, InvalidTag) as e:
            raise CannotOpen("the stored secrets are damaged") from e

    def fingerprint(self, content: bytes) -> str:
        return hmac.digest(self._keys[self._first], content, "sha256").hex()[:32]
