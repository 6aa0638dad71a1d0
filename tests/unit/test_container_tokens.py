"""Session tokens of containers are derived again at each poll, and the database alone is not enough to forge them."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from det_controlplane.adapters.aes_cipher import AesCipher
from det_controlplane.services.agents.container_spec import token_of

CONTAINER = UUID(int=1)


def token(bootstrap_token: str, cipher: AesCipher | None) -> str:
    ctx = SimpleNamespace(bootstrap_token=bootstrap_token, cipher=cipher)
    return token_of(cast(Any, ctx), CONTAINER, 2, "told by the database")


def test_token_is_equal_for_each_poll() -> None:
    assert token("", AesCipher(["key"])) == token("", AesCipher(["key"]))


def test_tokens_are_derived_from_the_key_without_a_bootstrap_token() -> None:
    assert len({token("", None), token("", AesCipher(["a"])), token("", AesCipher(["b"]))}) == 3
