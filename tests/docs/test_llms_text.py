"""docs/llms.txt lists the pages for assistants, as the index does."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts/llms_text.py"))


def test_the_list_for_assistants_is_up_to_date() -> None:
    index = (ROOT / "docs/README.md").read_text("utf-8")
    wanted = SCRIPT["text"](index)
    assert (ROOT / "docs/llms.txt").read_text("utf-8") == wanted, "run scripts/llms_text.py --write"


def test_every_page_of_the_index_is_listed_and_exists() -> None:
    link = re.compile(r"\]\(([^)#]+\.md)\)")
    index = link.findall((ROOT / "docs/README.md").read_text("utf-8"))
    listed = link.findall((ROOT / "docs/llms.txt").read_text("utf-8"))
    assert set(index) - {"../examples/README.md"} <= set(listed)
    assert all((ROOT / "docs" / path).is_file() for path in listed)


def test_the_skill_names_only_tools_that_exist() -> None:
    from det_cli.assistants import reading, writing

    classes = (reading.Reader, writing.Planner, writing.Writer)
    tools = {name for c in classes for name in vars(c) if not name.startswith("_")}
    skill = (ROOT / "docs/skills/determined/SKILL.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", skill)) - {
        "plan_token",
        "code_folder",
        "max_cost_usd",
        "next_cursor",
        "model_asha",
        "max_trials",
        "time_metric",
        "max_time",
        "expected_gain",
        "search_ended",
    }
    assert named - tools == set()
    assert len(named) > 8
