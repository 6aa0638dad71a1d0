"""Print docs/reference/terraform.md: the variables and outputs of the Terraform stacks, and their modules.

python -m scripts.terraform_reference > docs/reference/terraform.md

The comment at the head of a main.tf describes its stack or example.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INFRA = Path(__file__).resolve().parent.parent / "infra/terraform"
STACKS = ("aws", "gcp")
_LINK = "../../infra/terraform/modules"
_BLOCK = re.compile(r'^(variable|output) "(\w+)" \{\n(.*?)^\}', re.M | re.S)
_ARGUMENT = re.compile(r"^  (\w+) += (.*?)(?=^  \w+ +=|^  \w+ \{|\Z)", re.M | re.S)
_HEAD = """# The Terraform stacks

<!-- Written by `python -m scripts.terraform_reference`. -->

`det deploy aws` and `det deploy gcp` apply these stacks. `--var NAME=VALUE` sets a variable:

```sh
det deploy aws up --cluster-id team --region us-east-1 --var relay=true
det deploy aws dump-template DIR       # writes the stacks, modules and examples, for your own deployment
```

[Examples](../../infra/terraform/examples) use the stacks as modules:

| example | contents |
|---|---|
"""


class Undescribed(Exception):
    """A variable or an output has no description."""


@dataclass(frozen=True)
class Block:
    kind: str  # variable or output
    name: str
    description: str
    default: str  # empty: required
    is_secret: bool


def page() -> str:
    examples = sorted(path.parent for path in INFRA.glob("examples/*/main.tf"))
    rows = "".join(f"| `{e.name}` | {_purpose(e)} |\n" for e in examples)
    parts = [_HEAD + rows]
    for stack in STACKS:
        parts.append(_stack(stack))
        parts.append(_modules(stack))
    return "\n".join(parts)


def _stack(name: str) -> str:
    blocks = list(blocks_of(INFRA / name))
    return "\n".join([
        f"## Stack `{name}`", "", _wrapped(_purpose(INFRA / name)), "",
        "| variable | default | meaning |", "|---|---|---|",
        *(f"| {_name(b)} | {_default(b)} | {b.description} |" for b in blocks if b.kind == "variable"),
        "", "| output | meaning |", "|---|---|",
        *(
            f"| {_name(b)} | {b.description} |"
            for b in blocks
            if b.kind == "output"
        ),
        "",
    ])  # fmt: skip


def _modules(stack: str) -> str:
    """Link the modules of a stack. The comment in main.tf describes a module."""
    modules = sorted((INFRA / "modules" / stack).iterdir())
    links = ", ".join(f"[`{m.name}`]({_LINK}/{stack}/{m.name})" for m in modules)
    return _wrapped(f"Modules: {links}.") + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def blocks_of(folder: Path) -> Iterator[Block]:
    """Yield the variables and outputs of a module. Raises Undescribed."""
    for path in sorted(folder.glob("*.tf")):
        for kind, name, body in _BLOCK.findall(path.read_text("utf-8")):
            arguments = {key: value.strip() for key, value in _ARGUMENT.findall(body)}
            if "description" not in arguments:
                raise Undescribed(f"{path.relative_to(INFRA)}: {kind} {name} has no description")
            yield Block(
                kind, name, arguments["description"].strip('"').replace('\\"', '"').replace("|", "\\|"),
                arguments.get("default", ""), arguments.get("sensitive") == "true",
            )  # fmt: skip


def _name(block: Block) -> str:
    return f"`{block.name}`" + (" (secret)" if block.is_secret else "")


def _default(block: Block) -> str:
    return f"`{' '.join(block.default.split())}`" if block.default else "required"


def _purpose(folder: Path) -> str:
    """Return the comment at the top of a module's main.tf."""
    lines = (folder / "main.tf").read_text("utf-8").splitlines()
    count = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    purpose = " ".join(line.lstrip("# ") for line in lines[:count])
    if not purpose:
        raise Undescribed(
            f"{folder.relative_to(INFRA)}/main.tf does not begin with a comment about its purpose"
        )
    return purpose


if __name__ == "__main__":
    print(page(), end="")
