"""The generated client of Determined's package, which this package does not have. Importing the module works."""

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"determined.common.api.bindings has no {name}: this package has no generated client. Use"
        " determined.experimental.client, or the addresses of the API with the session that"
        " determined.common.api.authentication.login returns: session.get('/api/v1/experiments').json()."
        " Programs that need the generated client run with Determined's package from PyPI, determined==0.38.1"
    )
