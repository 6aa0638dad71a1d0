"""The keys that secrets of configurations are encrypted with, from where DET_SECRETS_KEY says they are."""

import base64
import binascii
from collections.abc import Callable
from pathlib import Path
from typing import Any

from det_controlplane.adapters.aes_cipher import AesCipher
from det_controlplane.entry.settings import BadSettings, Settings

_SHORTEST = 16


def cipher_of(settings: Settings) -> AesCipher | None:
    """Read the keys for secrets. The first key encrypts, and the others only decrypt. Return None if there is no secret
    to derive a key from."""
    keys = [part.strip() for part in settings.secrets_key.split(",") if part.strip()]
    # Without a key of its own, derive one from another secret of this deployment.
    other = settings.objects_secret or settings.bootstrap_token
    materials = [_material(part) for part in keys] or [other] * bool(other)
    return AesCipher(materials) if materials else None


def _material(key: str) -> str:
    scheme, colon, place = key.partition(":")
    reader = _SOURCES.get(scheme) if colon else None
    try:
        material = (reader(place) if reader else key).strip()
    except Exception as e:
        # Whatever a cloud's library raises for missing rights and names.
        raise BadSettings(f"DET_SECRETS_KEY: cannot read {scheme}: {e}") from e
    if len(material) < _SHORTEST:
        raise BadSettings(
            f"DET_SECRETS_KEY: a key has {len(material)} characters; give at least {_SHORTEST}, at random"
        )
    return material


def _file(path: str) -> str:
    return Path(path).read_text("utf-8")


def _aws_secret(name: str) -> str:
    return str(_aws("secretsmanager").get_secret_value(SecretId=name)["SecretString"])


def _aws_kms(encrypted: str) -> str:
    """Have KMS decrypt a data key, which `aws kms generate-data-key-without-plaintext` made."""
    try:
        blob = base64.b64decode(encrypted, validate=True)
    except binascii.Error as e:
        raise ValueError("what follows aws-kms: must be a data key in base64") from e
    return base64.b64encode(_aws("kms").decrypt(CiphertextBlob=blob)["Plaintext"]).decode()


def _aws(service: str) -> Any:
    import boto3

    return boto3.client(service)


_SOURCES: dict[str, Callable[[str], str]] = {
    "file": _file,
    "aws-secretsmanager": _aws_secret,
    "aws-kms": _aws_kms,
}
