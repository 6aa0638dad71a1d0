"""Configurations on their way to the database and to containers: secrets are stored apart, encrypted."""

import json
import logging
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.core.secrets import (
    HIDDEN,
    Secret,
    joined,
    masked_paths,
    restored,
    separated,
    with_variables,
)
from det_controlplane.db.engine.database import as_json
from det_controlplane.ports.cipher import CannotOpen
from det_controlplane.services.context import Context

log = logging.getLogger("det.secrets")

NOTHING = ""  # stored if there is no secret; NULL marks rows from before secrets were separated


@dataclass(frozen=True, slots=True)
class Sealed:
    """A configuration as it is stored: `shown` has asterisks where `secrets` has values."""

    shown: dict[str, Any]
    secrets: str = NOTHING


def seal(ctx: Context, config: dict[str, Any]) -> Sealed:
    parts = separated(config)
    if not parts.secrets:
        return Sealed(config)
    if ctx.cipher is None:
        where = ", ".join(".".join(map(str, path)) for path in parts.secrets)
        message = f"has a secret ({where}), and this cluster has no key to keep it with: set DET_SECRETS_KEY"
        raise InvalidConfig([Problem("", message)])
    content = [[list(path), secret.reveal()] for path, secret in parts.secrets.items()]
    return Sealed(parts.shown, ctx.cipher.seal(as_json(content).encode()))


def unsealed(ctx: Context, shown: Any, sealed: str | None) -> Any:
    """Return a configuration for a container or a storage, with its secrets."""
    if not sealed:
        return shown
    try:
        if ctx.cipher is None:
            raise CannotOpen("DET_SECRETS_KEY is not set")
        content = json.loads(ctx.cipher.open(sealed))
    except CannotOpen as e:
        # Only the use of the secret fails; everything else works.
        log.error("secrets of a configuration stay hidden: %s", e)
        return shown
    return joined(shown, {tuple(path): Secret(value) for path, value in content})


def as_seen_by_owner(ctx: Context, shown: Any, sealed: str | None) -> Any:
    """Return a stored configuration with the values of variables with names that do not speak of secrets."""
    return with_variables(shown, unsealed(ctx, shown, sealed)) if sealed else shown


def fingerprint(ctx: Context, config: dict[str, Any]) -> str:
    """Return a fingerprint that differs for configurations with different secrets, without revealing them."""
    secrets = separated(config).secrets
    if not secrets or ctx.cipher is None:
        return ""
    content = [[list(path), secret.reveal()] for path, secret in secrets.items()]
    return ctx.cipher.fingerprint(as_json(content).encode())


def completed(given: dict[str, Any], earlier: Any) -> dict[str, Any]:
    """Return a configuration that came back as it was shown, with the secrets of the earlier one."""
    complete = restored(given, earlier)
    unknown = masked_paths(complete)
    if unknown:
        message = f"is {HIDDEN}, which stands for a secret that is not shown: give its value"
        raise InvalidConfig([Problem(path, message) for path in unknown])
    return complete


def text_without_secrets(original: str, config: dict[str, Any]) -> str:
    """Return a submitted text with its secrets hidden, as the user wrote it where that can be done."""
    parts = separated(config)
    if not parts.secrets:
        return original
    hidden = original
    for secret in parts.secrets.values():
        value = str(secret.reveal())
        name, separator, content = value.partition("=")
        hidden = hidden.replace(content if separator and name.isidentifier() else value, HIDDEN)
    return hidden if _parses_to(hidden, parts.shown) else as_json(parts.shown)


def _parses_to(text: str, config: Any) -> bool:
    from det_controlplane.core.config import load_yaml

    try:
        return bool(load_yaml(text) == config)
    except InvalidConfig:
        return False
