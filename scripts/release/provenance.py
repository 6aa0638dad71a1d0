"""Provenance statements: in-toto statements with the predicate of SLSA 1.0. The release workflow signs them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://slsa.dev/provenance/v1"


@dataclass(frozen=True)
class Source:
    """The sources of a build, and its builder."""

    commit: str
    seconds: int
    repository: str
    ref: str
    builder: str
    invocation: str

    @classmethod
    def of_environment(cls, commit: str, seconds: int, variables: Mapping[str, str]) -> "Source":
        """Return the source with the names that GitHub Actions sets. Other builds have a local builder."""
        if not variables.get("GITHUB_REPOSITORY"):
            return cls(commit, seconds, "file:.", "", "urn:determined-serverless:local-build", "")
        server = variables.get("GITHUB_SERVER_URL", "https://github.com")
        repository = f"{server}/{variables['GITHUB_REPOSITORY']}"
        workflow = variables.get("GITHUB_WORKFLOW_REF", "")
        return cls(
            commit,
            seconds,
            repository,
            variables.get("GITHUB_REF", ""),
            f"{server}/{workflow}",
            f"{repository}/actions/runs/{variables.get('GITHUB_RUN_ID', '')}",
        )


def statement(name: str, sha256: str, source: Source) -> dict[str, Any]:
    """Return the statement that a file was built from a commit by `make dist`."""
    metadata = {"invocationId": source.invocation} if source.invocation else {}
    suffix = f"@{source.ref}" if source.ref else ""
    return {
        "_type": _STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": sha256}}],
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:determined-serverless:make-dist:v1",
                "externalParameters": {"repository": source.repository, "ref": source.ref},
                "internalParameters": {"SOURCE_DATE_EPOCH": str(source.seconds)},
                "resolvedDependencies": [
                    {
                        "uri": f"git+{source.repository}{suffix}",
                        "digest": {"gitCommit": source.commit},
                    }
                ],
            },
            "runDetails": {"builder": {"id": source.builder}, "metadata": metadata},
        },
    }
