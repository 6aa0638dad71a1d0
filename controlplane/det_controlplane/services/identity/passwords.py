"""Hash passwords and compare them: as clients send them, and as they are stored."""

import hashlib
import hmac
import secrets

# Stock clients hash the password with this salt. The database has a scrypt hash of the result.
CLIENT_SALT = "GubPEmmotfiK9TMD6Zdw"
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
    _, salt, digest = stored.split("$")
    return hmac.compare_digest(_derive(client_hashed, bytes.fromhex(salt)).hex(), digest)


def _derive(client_hashed: str, salt: bytes) -> bytes:
    n, r, p = SCRYPT["n"], SCRYPT["r"], SCRYPT["p"]
    return hashlib.scrypt(client_hashed.encode(), salt=salt, n=n, r=r, p=p, dklen=32)
