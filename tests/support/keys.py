"""RSA keys for tests: to make one takes as long as many tests do."""

import functools

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


@functools.cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return this process's key of a name."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@functools.cache
def pem_of(key: rsa.RSAPrivateKey) -> str:
    """Return a private key as files hold it."""
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem.decode()
