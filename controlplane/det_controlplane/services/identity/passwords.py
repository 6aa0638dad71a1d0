"""Hash passwords and compare them: as clients send them, and as they are stored."""

import hashlib
import hmac
import secrets

from det_controlplane.core.importing.people import BCRYPT
from det_controlplane.services.errors import WrongState

# Stock clients hash the password with this salt. The database has a scrypt hash of the result.
CLIENT_SALT = "GubPEmmotfiK9TMD6Zdw"
_BCRYPT_BYTES = 72
SCRYPT = {"n": 2**14, "r": 8, "p": 1}


def client_hash(password: str) -> str:
    """Return the hash that a client of Determined sends for a password. An empty one is sent empty."""
    return hashlib.sha512((CLIENT_SALT + password).encode()).hexdigest() if password else ""


def stored_hash(client_hashed: str) -> str:
    salt = secrets.token_bytes(16)
    return f"scrypt${salt.hex()}${_derive(client_hashed, salt).hex()}"


def password_matches(stored: str | None, client_hashed: str) -> bool:
    if stored is None:
        # This takes as long as a real check, so that the time does not reveal whether the name exists.
        _derive(client_hashed, b"0" * 16)
        return False
    if stored.startswith(BCRYPT):
        return _matches_bcrypt(stored.removeprefix(BCRYPT), client_hashed)
    _, salt, digest = stored.split("$")
    return hmac.compare_digest(_derive(client_hashed, bytes.fromhex(salt)).hex(), digest)


def is_of_determined(stored: str | None) -> bool:
    """Return whether a hash was imported from a Determined cluster. Sign-ins replace it."""
    return stored is not None and stored.startswith(BCRYPT)


def _matches_bcrypt(hashed: str, client_hashed: str) -> bool:
    try:
        import bcrypt  # only for the first sign-in of an imported user
    except ImportError as e:  # Lambda's Python 3.11 cannot load it
        raise WrongState(
            "passwords of imported users cannot be checked here: deploy with Python 3.12 or later, or let an"
            " administrator set a new password"
        ) from e
    try:
        return bcrypt.checkpw(client_hashed.encode()[:_BCRYPT_BYTES], hashed.encode())
    except ValueError:  # no hash of bcrypt
        return False


def _derive(client_hashed: str, salt: bytes) -> bytes:
    n, r, p = SCRYPT["n"], SCRYPT["r"], SCRYPT["p"]
    return hashlib.scrypt(client_hashed.encode(), salt=salt, n=n, r=r, p=p, dklen=32)
