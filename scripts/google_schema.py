"""Make the schema of Terraform's Google provider that tests/terraform checks our modules against.

    pip download --no-deps cdktn-provider-google==21.1.0
    python scripts/google_schema.py cdktn_provider_google-*.whl tests/terraform/google_schema.json.gz

The bindings carry names, types, blocks and what is required, as facts of the provider; neither its code nor its texts
are taken over.
"""

import argparse
import gzip
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

# Products that a cluster may be made of; the whole provider has four times as much.
PRODUCTS = (
    "artifact_registry", "billing", "cloud_run_v2", "cloud_scheduler", "compute", "filestore", "iam", "kms", "logging",
    "monitoring", "project", "secret_manager", "service", "sql", "storage", "client_config",
)  # fmt: skip
META = frozenset(
    {"connection", "count", "dependsOn", "forEach", "lifecycle", "provider", "provisioners"}
)
# Properties of every binding, which no schema has.
OF_BINDINGS = frozenset(
    {
        "cdktfStack", "constructNodeMetadata", "friendlyUniqueId", "fqn", "node", "rawOverrides",
        "terraformGeneratorMetadata", "terraformMetaArguments", "terraformResourceType",
    }
)  # fmt: skip
RESOLVABLE = "cdktn.IResolvable"
DEEPEST = 12
PRIMITIVES = {"boolean": "bool", "any": "dynamic"}

Json = Mapping[str, Any]


class Bindings:
    """The types of a wheel of bindings, by name."""

    def __init__(self, wheel: Path) -> None:
        self._wheel = wheel

    @cached_property
    def types(self) -> Json:
        with zipfile.ZipFile(self._wheel) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith(".jsii.tgz"))
            packed = io.BytesIO(archive.read(name))
        with tarfile.open(fileobj=packed) as assembly:
            found = assembly.extractfile("package/.jsii")
            assert found is not None, "the wheel has no jsii assembly"
            types: Json = json.loads(found.read())["types"]
        return types

    def schemas(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"resources": {}, "data_sources": {}}
        for kind, name, binding, made in self._wanted():
            block = self._block(binding + "Config", 0)
            for attribute, type_ in self._computed(made):
                if attribute not in block["attributes"] and attribute not in block["blocks"]:
                    block["attributes"][attribute] = {"type": type_, "computed": True}
            found[kind][name] = block
        return found

    def _wanted(self) -> Iterator[tuple[str, str, str, Json]]:
        for binding, made in self.types.items():
            base = made.get("base", "")
            if not base.endswith(("TerraformResource", "TerraformDataSource")):
                continue
            page = re.search(r"docs/(resources|data-sources)/(\w+)", json.dumps(made.get("docs")))
            if page and page[2].startswith(PRODUCTS):
                kind = "resources" if page[1] == "resources" else "data_sources"
                yield kind, f"google_{page[2]}", binding, made

    def _block(self, binding: str, depth: int) -> dict[str, Any]:
        block: dict[str, Any] = {"attributes": {}, "blocks": {}}
        for given in self.types[binding].get("properties", []):
            if depth == 0 and given["name"] in META:
                continue
            name, required = _terraform_name(given), not given.get("optional")
            nested, nesting = self._nested(given["type"])
            if nested:
                inner = self._block(nested, depth + 1) if depth < DEEPEST else _EMPTY
                block["blocks"][name] = {"nesting": nesting, "required": required, "block": inner}
            else:
                block["attributes"][name] = {"type": _type(given["type"]), "required": required}
        return block

    def _nested(self, type_: Json) -> tuple[str, str]:
        """Return the binding of a nested block, and whether there may be more than one."""
        plain = _type(type_)
        many = isinstance(plain, list)
        name = plain[1] if isinstance(plain, list) else plain
        if not isinstance(name, dict) or name["fqn"] not in self.types:
            return "", ""
        if name["fqn"].endswith("Timeouts"):
            return name["fqn"], "single"
        return name["fqn"], "many" if many else "one"

    def _computed(self, made: Json) -> Iterator[tuple[str, Any]]:
        for read in made["properties"]:
            name = read["name"]
            if read.get("static") or name.endswith("Input") or name in OF_BINDINGS | META:
                continue
            type_ = read["type"]
            if type_.get("fqn", "").endswith("StringMap"):
                yield _snake(name), ["map", "string"]
            elif "collection" in type_:
                yield _snake(name), ["list", "string"]
            else:
                primitive = type_.get("primitive", "any")
                yield _snake(name), PRIMITIVES.get(primitive, primitive)


_EMPTY: Json = {"attributes": {}, "blocks": {}}


def _type(type_: Json) -> Any:
    if "primitive" in type_:
        return PRIMITIVES.get(type_["primitive"], type_["primitive"])
    if "collection" in type_:
        kind = {"array": "list", "map": "map"}[type_["collection"]["kind"]]
        return [kind, _type(type_["collection"]["elementtype"])]
    if "union" in type_:
        return _type(next(t for t in type_["union"]["types"] if t.get("fqn") != RESOLVABLE))
    return "bool" if type_["fqn"] == RESOLVABLE else {"fqn": type_["fqn"]}


def _terraform_name(given: Json) -> str:
    """Return the name of a resource in Terraform: the link to the provider's page has it."""
    linked = re.search(r"#(\w+) ", (given.get("docs") or {}).get("remarks", ""))
    return linked[1] if linked else _snake(given["name"])


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the schema of Terraform's Google provider.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    schemas = Bindings(options.wheel).schemas()
    text = json.dumps(schemas, sort_keys=True, separators=(",", ":"))
    # Without a time, the same schema is the same file.
    options.target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print({kind: len(found) for kind, found in schemas.items()}, options.target.stat().st_size)


if __name__ == "__main__":
    main()
