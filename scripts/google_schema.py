"""Make the schema of Terraform's Google provider, against which tests/terraform checks our modules.

    pip download --no-deps cdktn-provider-google==21.1.0
    python scripts/google_schema.py cdktn_provider_google-*.whl tests/terraform/google_schema.json.gz

The bindings contain names, types, blocks and required attributes, which are facts about the provider. Its code and
texts are not copied.
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

# Products that a cluster may use. The whole provider has four times as many.
PRODUCTS = (
    "artifact_registry", "billing", "cloud_run_v2", "cloud_scheduler", "compute", "filestore", "iam", "kms", "logging",
    "monitoring", "project", "secret_manager", "service", "sql", "storage", "client_config",
)  # fmt: skip
META = frozenset(
    {"connection", "count", "dependsOn", "forEach", "lifecycle", "provider", "provisioners"}
)
# Properties of every binding that are not in the schema.
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
    """The types of a wheel with bindings, by name."""

    def __init__(self, wheel: Path) -> None:
        self._wheel = wheel

    @cached_property
    def types(self) -> Json:
        with zipfile.ZipFile(self._wheel) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith(".jsii.tgz"))
            tarball = io.BytesIO(archive.read(name))
        with tarfile.open(fileobj=tarball) as assembly:
            assembly_file = assembly.extractfile("package/.jsii")
            assert assembly_file is not None, "the wheel has no jsii assembly"
            types: Json = json.loads(assembly_file.read())["types"]
        return types

    def schemas(self) -> dict[str, dict[str, Any]]:
        schemas: dict[str, dict[str, Any]] = {"resources": {}, "data_sources": {}}
        for kind, name, binding, binding_type in self._wanted():
            block = self._block(binding + "Config", 0)
            for attribute, type_ in self._computed(binding_type):
                if attribute not in block["attributes"] and attribute not in block["blocks"]:
                    block["attributes"][attribute] = {"type": type_, "computed": True}
            schemas[kind][name] = block
        return schemas

    def _wanted(self) -> Iterator[tuple[str, str, str, Json]]:
        for binding, binding_type in self.types.items():
            base = binding_type.get("base", "")
            if not base.endswith(("TerraformResource", "TerraformDataSource")):
                continue
            page = re.search(
                r"docs/(resources|data-sources)/(\w+)", json.dumps(binding_type.get("docs"))
            )
            if page and page[2].startswith(PRODUCTS):
                kind = "resources" if page[1] == "resources" else "data_sources"
                yield kind, f"google_{page[2]}", binding, binding_type

    def _block(self, binding: str, depth: int) -> dict[str, Any]:
        block: dict[str, Any] = {"attributes": {}, "blocks": {}}
        for attribute in self.types[binding].get("properties", []):
            if depth == 0 and attribute["name"] in META:
                continue
            name, required = _terraform_name(attribute), not attribute.get("optional")
            child, nesting = self._nested(attribute["type"])
            if child:
                inner = self._block(child, depth + 1) if depth < DEEPEST else _EMPTY
                block["blocks"][name] = {"nesting": nesting, "required": required, "block": inner}
            else:
                block["attributes"][name] = {"type": _type(attribute["type"]), "required": required}
        return block

    def _nested(self, type_: Json) -> tuple[str, str]:
        """Return the binding of a nested block, and how often it may occur."""
        plain = _type(type_)
        many = isinstance(plain, list)
        name = plain[1] if isinstance(plain, list) else plain
        if not isinstance(name, dict) or name["fqn"] not in self.types:
            return "", ""
        if name["fqn"].endswith("Timeouts"):
            return name["fqn"], "single"
        return name["fqn"], "many" if many else "one"

    def _computed(self, binding_type: Json) -> Iterator[tuple[str, Any]]:
        for attribute in binding_type["properties"]:
            name = attribute["name"]
            if attribute.get("static") or name.endswith("Input") or name in OF_BINDINGS | META:
                continue
            type_ = attribute["type"]
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


def _terraform_name(attribute: Json) -> str:
    """Return the name of an attribute in Terraform, which the link to the provider's page contains."""
    link = re.search(r"#(\w+) ", (attribute.get("docs") or {}).get("remarks", ""))
    return link[1] if link else _snake(attribute["name"])


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the schema of Terraform's Google provider.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    schemas = Bindings(options.wheel).schemas()
    text = json.dumps(schemas, sort_keys=True, separators=(",", ":"))
    # Without a time, equal schemas give equal files.
    options.target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(
        {kind: len(named_schemas) for kind, named_schemas in schemas.items()},
        options.target.stat().st_size,
    )


if __name__ == "__main__":
    main()
