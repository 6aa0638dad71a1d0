"""The compose file of the container guide: its variables, and the environment of the program."""

import re
from pathlib import Path

import pytest
from det_controlplane.entry.settings import from_environment

from tests.support.compose import Unset, services

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/container.md"
MUST = ("DET_OBJECTS_SECRET", "DET_BOOTSTRAP_TOKEN", "DET_INITIAL_USER_PASSWORD")
SET = dict.fromkeys(MUST, "given")


@pytest.mark.parametrize("name", MUST)
def test_missing_secret_stops_the_start_with_its_name(name: str) -> None:
    with pytest.raises(Unset, match=name):
        services({**SET, name: ""})


def test_every_setting_is_documented_in_the_guide() -> None:
    documented = set(re.findall(r"`(DET_\w+)`", GUIDE.read_text()))
    variables = services(SET)["controlplane"]["environment"]
    assert set(variables) <= documented
    assert set(MUST) <= set(variables)


def test_settings_reach_the_program_or_keep_their_defaults(
    tmp_path: Path,
) -> None:
    pem = tmp_path / "server.pem"
    pem.touch()
    tls = {"DET_TLS_CERT": str(pem), "DET_TLS_KEY": str(pem)}
    variables = {**tls, "DET_SECRETS_KEY": "file:/run/key", "DET_DB_POOL_SIZE": "8"}
    settings = from_environment(services({**SET, **variables})["controlplane"]["environment"])
    assert (settings.tls_cert, settings.tls_key) == (str(pem), str(pem))
    assert (settings.secrets_key, settings.pool_size) == ("file:/run/key", 8)
    url = {"DET_DB_URL": "postgresql://db.example.com/x"}
    settings = from_environment(services({**SET, **url})["controlplane"]["environment"])
    default = from_environment(url)
    for name in ("tls_cert", "tls_key", "secrets_key", "pool_size"):
        assert getattr(settings, name) == getattr(default, name)


def test_bundled_database_is_used_unless_another_is_named() -> None:
    bundled = services({**SET, "DET_DB_PASSWORD": "secret"})
    url = bundled["controlplane"]["environment"]["DET_DB_URL"]
    assert url == (
        "postgresql://determined:secret@/determined?unix_sock=/var/run/postgresql/.s.PGSQL.5432"
    )
    assert bundled["database"]["environment"]["POSTGRES_PASSWORD"] == "secret"
    assert bundled["database"]["volumes"]["socket"] == bundled["controlplane"]["volumes"]["socket"]
    composition = services({**SET, "DET_DB_URL": "postgresql://db.example.com/x"})
    assert (
        composition["controlplane"]["environment"]["DET_DB_URL"] == "postgresql://db.example.com/x"
    )
