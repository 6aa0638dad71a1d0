"""Print docs/reference/terraform.md: every variable and output of the Terraform stacks and their modules.

python -m scripts.terraform_reference > docs/reference/terraform.md

What a module is for are the comments at the head of its main.tf.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INFRA = Path(__file__).resolve().parent.parent / "infra/terraform"
STACKS = ("aws", "gcp")
_BLOCK = re.compile(r'^(variable|output) "(\w+)" \{\n(.*?)^\}', re.M | re.S)
_ARGUMENT = re.compile(r"^  (\w+) += (.*?)(?=^  \w+ +=|^  \w+ \{|\Z)", re.M | re.S)
_HEAD = """# The Terraform stacks

`det deploy aws` and `det deploy gcp` apply the two stacks below; `det deploy aws|gcp dump-template DIR` writes them,
their modules and the examples to a folder, for those who keep their own. `--var NAME=VALUE` of `up` sets a variable of
a stack. This page is written by `python -m scripts.terraform_reference`.

[Examples](../../infra/terraform/examples) use the stacks as modules:

| example | |
|---|---|
"""


class Undescribed(Exception):
    """A variable or an output has no description."""


@dataclass(frozen=True)
class Block:
    kind: str  # variable or output
    name: str
    description: str
    type: str
    default: str  # empty: must be given
    is_secret: bool


def page() -> str:
    examples = sorted(path.parent for path in INFRA.glob("examples/*/main.tf"))
    rows = "".join(f"| `{e.name}` | {_purpose(e)} |\n" for e in examples)
    parts = [_HEAD + rows]
    for stack in STACKS:
        parts.append(_section(f"## Stack `{stack}`", INFRA / stack))
        for module in sorted((INFRA / "modules" / stack).iterdir()):
            parts.append(_section(f"### Module `{stack}/{module.name}`", module))
    return "\n".join(parts)


def _section(title: str, folder: Path) -> str:
    blocks = list(blocks_of(folder))
    lines = [title, "", _purpose(folder), ""]
    variables = [b for b in blocks if b.kind == "variable"]
    if variables:
        lines += ["| variable | type | default | |", "|---|---|---|---|"]
        lines += [
            f"| `{b.name}` | {_type(b)} | {_default(b)} | {b.description} |" for b in variables
        ]
        lines.append("")
    outputs = [b for b in blocks if b.kind == "output"]
    if outputs:
        lines += ["| output | |", "|---|---|"]
        lines += [
            f"| `{b.name}`{' (secret)' if b.is_secret else ''} | {b.description} |" for b in outputs
        ]
        lines.append("")
    return "\n".join(lines)


def blocks_of(folder: Path) -> Iterator[Block]:
    """Yield the variables and outputs of a module. Raises Undescribed."""
    for path in sorted(folder.glob("*.tf")):
        for kind, name, body in _BLOCK.findall(path.read_text("utf-8")):
            told = {key: value.strip() for key, value in _ARGUMENT.findall(body)}
            if "description" not in told:
                raise Undescribed(f"{path.relative_to(INFRA)}: {kind} {name} has no description")
            yield Block(
                kind, name, told["description"].strip('"').replace('\\"', '"').replace("|", "\\|"),
                told.get("type", ""), told.get("default", ""), told.get("sensitive") == "true",
            )  # fmt: skip


def _type(block: Block) -> str:
    return " ".join(block.type.split()) + (", secret" if block.is_secret else "")


def _default(block: Block) -> str:
    return f"`{' '.join(block.default.split())}`" if block.default else "must be given"


def _purpose(folder: Path) -> str:
    """Return the comment at the head of a module."""
    lines = (folder / "main.tf").read_text("utf-8").splitlines()
    count = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    told = " ".join(line.lstrip("# ") for line in lines[:count])
    if not told:
        raise Undescribed(f"{folder.relative_to(INFRA)}/main.tf does not begin with what it is for")
    return told


if __name__ == "__main__":
    print(page(), end="")
