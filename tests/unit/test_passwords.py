"""The storage of passwords."""

import hashlib

from det_controlplane.services.identity.passwords import (
    client_hash,
    password_matches,
    stored_hash,
)


def test_stored_password_uses_scrypt_with_16_megabytes() -> None:
    hashed = client_hash("a password")
    kind, salt, digest = stored_hash(hashed).split("$")
    derived = hashlib.scrypt(hashed.encode(), salt=bytes.fromhex(salt), n=2**14, r=8, p=1, dklen=32)
    assert (kind, digest) == ("scrypt", derived.hex())


def test_the_same_password_is_stored_differently_each_time_and_matches() -> None:
    hashed = client_hash("a password")
    first, second = stored_hash(hashed), stored_hash(hashed)
    assert first != second
    assert password_matches(first, hashed)
    assert password_matches(second, hashed)
    assert not password_matches(first, client_hash("another"))
    assert not password_matches(None, hashed)
