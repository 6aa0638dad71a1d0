"""Where the key of secrets comes from."""

import base64
from pathlib import Path

import boto3
import pytest
from det_controlplane.adapters.aes_cipher import AesCipher
from det_controlplane.entry import keys
from det_controlplane.entry.settings import BadSettings, Settings
from moto import mock_aws

KEY = "sixteen characters or more"


def cipher_of(key: str, objects_secret: str = "") -> AesCipher | None:
    settings = Settings("postgresql://x", secrets_key=key, objects_secret=objects_secret)
    return keys.cipher_of(settings)


def opens(key: str, sealed: str) -> bool:
    cipher = cipher_of(key)
    return cipher is not None and cipher.open(sealed) == b"secret"


@mock_aws  # type: ignore[untyped-decorator]
def test_key_is_read_from_the_configured_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    boto3.client("secretsmanager").create_secret(Name="det/key", SecretString=KEY)
    cipher = cipher_of(KEY)
    assert cipher is not None
    sealed = cipher.seal(b"secret")
    assert opens(f"file:{file}", sealed)
    assert opens("aws-secretsmanager:det/key", sealed)
    kms = boto3.client("kms")
    data_key = kms.generate_data_key(
        KeyId=kms.create_key()["KeyMetadata"]["KeyId"], KeySpec="AES_256"
    )
    wrapped = base64.b64encode(data_key["CiphertextBlob"]).decode()
    plain = cipher_of(base64.b64encode(data_key["Plaintext"]).decode())
    assert plain is not None
    assert opens(f"aws-kms:{wrapped}", plain.seal(b"secret"))


@pytest.mark.parametrize("key", ["short", "file:/nowhere", "aws-kms:no base64"])
def test_unreadable_key_stops_the_start(key: str) -> None:
    with pytest.raises(BadSettings, match="DET_SECRETS_KEY"):
        cipher_of(key)


def test_secret_of_the_deployment_is_the_default_key() -> None:
    cipher = cipher_of("", objects_secret="of the deployment")
    same_cipher = cipher_of("of the deployment")
    assert cipher is not None
    assert same_cipher is not None
    assert same_cipher.open(cipher.seal(b"secret")) == b"secret"
    assert cipher_of("") is None
