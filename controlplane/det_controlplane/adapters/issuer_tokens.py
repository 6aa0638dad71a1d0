"""Verify OIDC tokens with the public keys of their issuers. The keys are cached for an hour."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from det_controlplane.adapters.issuer_answers import AnswerCache
from det_controlplane.adapters.issuers import fetch_keys
from det_controlplane.ports.identity import NotProven

_MOST_TOKEN = 16 * 1024
_LEAST_AGE_S = 60.0  # the shortest interval of fetches for unknown keys
_CLOCK_SKEW_S = 30
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384")

FetchKeys = Callable[[str], dict[str, Any]]


class IssuerTokens:
    """Implements `ports.issuer_tokens.TokenVerifier`."""

    def __init__(
        self, fetch: FetchKeys = fetch_keys, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._keys = AnswerCache(lambda issuer: _by_id(fetch(issuer)), now)

    def verified(self, token: str, trusted: Mapping[str, Collection[str]]) -> Mapping[str, Any]:
        import jwt

        if len(token) > _MOST_TOKEN:
            raise NotProven("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
            stated = jwt.decode(token, options={"verify_signature": False}).get("iss")
            issuer = next((i for i in trusted if i == str(stated).rstrip("/")), None)
            if issuer is None:
                raise NotProven(f"this cluster trusts no tokens of {stated!r}")
            claims: Mapping[str, Any] = jwt.decode(
                token,
                self._key(issuer, str(header.get("kid", ""))),
                algorithms=list(_ALGORITHMS),
                audience=list(trusted[issuer]),
                issuer=str(stated),
                leeway=_CLOCK_SKEW_S,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as e:
            raise NotProven(f"the token is not valid: {e}") from e
        return claims

    def _key(self, issuer: str, key_id: str) -> Any:
        keys = self._keys.get_cached(issuer)
        if keys is None or key_id not in keys:
            keys = self._keys.get_cached(issuer, _LEAST_AGE_S)
        if keys is None:
            keys = self._keys.fetch(issuer)
        if not key_id and len(keys) == 1:
            return next(iter(keys.values()))  # an issuer with one key may omit its id
        if key_id not in keys:
            raise NotProven(f"{issuer} has no key {key_id!r}")
        return keys[key_id]


def _by_id(key_set: dict[str, Any]) -> Mapping[str, Any]:
    import jwt

    return {str(key.key_id or ""): key for key in jwt.PyJWKSet.from_dict(key_set).keys}
