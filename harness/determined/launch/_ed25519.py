"""The public half of an Ed25519 key (RFC 8032), and both halves in OpenSSH's formats.

This is pure Python, so that all containers derive the same key pair without `ssh-keygen` or a package in the image.
"""

import base64
import hashlib
import struct
import textwrap
from typing import Tuple

_P = 2**255 - 19
_D = -121665 * pow(121666, _P - 2, _P) % _P
_KIND = b"ssh-ed25519"

# Extended coordinates (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z.
_Point = Tuple[int, int, int, int]


def public_key(seed: bytes) -> bytes:
    """Return the public key of a secret. Both have 32 bytes."""
    scalar = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    scalar = scalar & ~7 & (1 << 255) - 1 | 1 << 254
    x, y, z, _ = _times(scalar, _base())
    inverse = pow(z, _P - 2, _P)
    x, y = x * inverse % _P, y * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def public_line(seed: bytes) -> str:
    """Return the public key as a line of `authorized_keys`."""
    return f"{_KIND.decode()} {base64.b64encode(_public_blob(seed)).decode()}\n"


def private_file(seed: bytes) -> str:
    """Return an unencrypted private key file for `ssh -i`."""
    public = public_key(seed)
    # These check numbers detect a wrong passphrase. The key has no passphrase.
    secret = struct.pack(">II", 0, 0) + _encode_string(_KIND) + _encode_string(public)
    secret += _encode_string(seed + public) + _encode_string(b"")
    secret += bytes(range(1, 1 + -len(secret) % 8))
    content = b"openssh-key-v1\0" + _encode_string(b"none") * 2 + _encode_string(b"")
    content += struct.pack(">I", 1) + _encode_string(_public_blob(seed)) + _encode_string(secret)
    body = "\n".join(textwrap.wrap(base64.b64encode(content).decode(), 70))
    return f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n"


def _public_blob(seed: bytes) -> bytes:
    return _encode_string(_KIND) + _encode_string(public_key(seed))


def _encode_string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def _base() -> _Point:
    """Return the curve's base point: y is 4/5, and x is the even root."""
    y = 4 * pow(5, _P - 2, _P) % _P
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if x * x % _P != square:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    x = _P - x if x & 1 else x
    return x, y, 1, x * y % _P


def _times(scalar: int, point: _Point) -> _Point:
    result: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = _plus(result, point)
        point = _plus(point, point)
        scalar >>= 1
    return result


def _plus(one: _Point, other: _Point) -> _Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * one[3] * other[3] * _D % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P
