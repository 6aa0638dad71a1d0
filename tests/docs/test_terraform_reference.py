"""The page of the Terraform stacks lists their variables and outputs."""

from pathlib import Path

import pytest

from scripts import terraform_reference
from scripts.terraform_reference import Undescribed, blocks_of, page

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/terraform.md"


def test_page_is_up_to_date() -> None:
    command = "python -m scripts.terraform_reference > docs/reference/terraform.md"
    assert PAGE.read_text("utf-8") == page(), f"run: {command}"


def test_page_links_every_module_of_the_stacks() -> None:
    text = page()
    for stack in ("aws", "gcp"):
        for module in (terraform_reference.INFRA / "modules" / stack).iterdir():
            assert f"[`{module.name}`](../../infra/terraform/modules/{stack}/{module.name})" in text
    assert '| `database_tier` | `"db-f1-micro"` |' in text
    assert "| `initial_user_password` (secret) | required |" in text


@pytest.mark.parametrize("kind", ["variable", "output"])
def test_rejects_a_block_without_a_description(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terraform_reference, "INFRA", tmp_path)
    (tmp_path / "main.tf").write_text(f'# A module.\n\n{kind} "size" {{\n  type = number\n}}\n')
    with pytest.raises(Undescribed, match=f"main.tf: {kind} size has no description"):
        list(blocks_of(tmp_path))
