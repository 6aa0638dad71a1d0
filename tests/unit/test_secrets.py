"""Which parts of a configuration are secrets."""

import json
from typing import Any

import pytest
from det_controlplane.core.secrets import (
    HIDDEN,
    Secret,
    joined,
    masked_paths,
    redacted,
    restored,
    separated,
)
from hypothesis import example, given
from hypothesis import strategies as st

NAMES = st.sampled_from(
    [
        "secret_key",
        "password",
        "data",
        "environment",
        "environment_variables",
        "name",
        "x",
        "pod_spec",
    ]
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text("ab=:/@*", max_size=8))
CONFIGS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=20,
)


@given(CONFIGS)
@example({"environment_variables": "A=b"})
@example({"environment_variables": ["A=b", "A="]})
def test_configuration_equals_its_shown_and_secret_parts(config: Any) -> None:
    parts = separated(config)
    assert joined(parts.shown, parts.secrets) == config
    assert restored(parts.shown, config) == config or masked_paths(config)


@given(CONFIGS)
def test_redacted_configuration_contains_no_secrets(config: Any) -> None:
    assert separated(redacted(config)).secrets == {}


@pytest.mark.parametrize(
    "config",
    [
        {"checkpoint_storage": {"secret_key": "x"}},
        {"environment": {"environment_variables": ["HF_TOKEN=x"]}},
        {"environment": {"environment_variables": {"cuda": ["A=x"]}}},
        {"environment": {"environment_variables": {"A": "x"}}},
        {"environment": {"pod_spec": {"spec": {"env": [{"name": "A", "value": "x"}]}}}},
        {"task_container_defaults": ({"registry_auth": {"identitytoken": "x"}},)},
        {"data": {"secrets": ["x"]}},
        {"data": {"apiKey": "x"}},
        {"telemetry": {"otel_headers": {"x-team": "x"}}},
        {"checkpoint_storage": {"connection_string": "x"}},
        {"data": {"url": "postgres://ada:x@db.example/x"}},
        {"environment": {"environment_variables": ["NCCL_TOKEN=x"]}},
    ],
)
def test_detects_secrets(config: dict[str, Any]) -> None:
    assert [s.reveal()[-1] for s in separated(config).secrets.values()] == ["x"]


@pytest.mark.parametrize(
    "config",
    [
        {"hyperparameters": {"token": "bpe", "secret": 1}},
        {"data": {"max_tokens": 5, "tokenizer": "x"}},
        {
            "environment": {
                "environment_variables": [
                    "NCCL_DEBUG=INFO",
                    "OMP_NUM_THREADS=1",
                    "HOME",
                    "DET_PYTHON_EXECUTABLE=/opt/bin/python",
                    "DET_INSTALL_MISSING=0",
                    "TOKENIZERS_PARALLELISM=false",
                ]
            }
        },
        {"environment": {"registry_auth": {"username": "me", "serveraddress": "r.example"}}},
    ],
)
def test_other_values_are_not_redacted(config: dict[str, Any]) -> None:
    assert redacted(config) == config


def test_a_secret_is_not_printed_by_accident() -> None:
    secret = Secret("x")
    assert f"{secret} {secret!r} {[secret]}" == f"{HIDDEN} {HIDDEN} [{HIDDEN}]"
    with pytest.raises(TypeError):
        json.dumps(secret)
