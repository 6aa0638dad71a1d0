"""The check of docstrings, comments, docs and commit messages for plain English."""

from pathlib import Path

import pytest

from scripts import prose


def markers_of(tmp_path: Path, name: str, source: str) -> list[str]:
    path = tmp_path / name
    path.write_text(source)
    return [hit.marker.name for passage in prose.passages(path) for hit in prose.hits(passage)]


@pytest.mark.parametrize(
    ("sentence", "marker"),
    [
        ("Return what waits in the queue.", "what-clause"),
        ("Only who owns it may delete it, so ask one who reads it.", "who-clause"),
        ("The agent tells the reason.", "tell"),
        ("Delete those of other users.", "pronoun"),
        ("Then nothing is left.", "nobody-nothing"),
        ("A trial whose run ended.", "whose"),
        ("It is no trial.", "is-no"),
        ("It goes on elsewhere.", "old-verb"),
    ],
)
def test_finds_each_marker_in_docstrings_comments_and_docs(
    tmp_path: Path, sentence: str, marker: str
) -> None:
    assert marker in markers_of(tmp_path, "a.py", f'"""{sentence}"""\n')
    assert marker in markers_of(tmp_path, "b.py", f"x = 1  # {sentence}\n")
    assert marker in markers_of(tmp_path, "c.md", f"# Title\n\n{sentence}\n")
    assert marker in markers_of(tmp_path, "d.sh", f"# {sentence}\n")


def test_accepts_plain_sentences(tmp_path: Path) -> None:
    source = '"""Return the queued jobs of a pool."""\n# A drained agent gets no more work.\n'
    assert markers_of(tmp_path, "a.py", source) == []


def test_ignores_code_and_links_in_docs(tmp_path: Path) -> None:
    source = "Use `tell nobody`, or [this](whose.md).\n\n```sh\ntell nobody\n```\n"
    assert markers_of(tmp_path, "a.md", source) == []


def test_ignores_strings_that_are_not_docstrings(tmp_path: Path) -> None:
    assert markers_of(tmp_path, "a.py", 'x = "nobody tells"\n') == []


def test_finds_comments_that_begin_without_a_subject(tmp_path: Path) -> None:
    assert markers_of(tmp_path, "a.py", "# Of the last run.\n") == ["fragment"]
    assert markers_of(tmp_path, "b.py", "# As a result, the pool waits.\n") == []


def test_finds_docstrings_that_begin_with_a_question_word(tmp_path: Path) -> None:
    source = 'def f():\n    """Whether the trial ended."""\n'
    assert markers_of(tmp_path, "a.py", source) == ["docstring-start"]


def test_joins_comments_on_adjacent_lines(tmp_path: Path) -> None:
    source = "# One trial\n# Of a search.\nx = 1\n# Of a pool.\n"
    assert markers_of(tmp_path, "a.py", source) == ["fragment"]


def test_finds_sentences_of_more_than_35_words(tmp_path: Path) -> None:
    assert markers_of(tmp_path, "a.md", f"{'word ' * 36}.\n") == ["long-sentence"]
    assert markers_of(tmp_path, "b.md", f"{'word ' * 34}. {'word ' * 34}.\n") == []
    items = "\n".join(f"- {'word ' * 20}" for _ in range(3))
    assert markers_of(tmp_path, "c.md", items) == []


def test_compares_rates_with_the_limits() -> None:
    passage = prose.Passage("a.md", 1, "docs", "")
    tell = next(m for m in prose.MARKERS if m.name == "tell")
    places = [prose.Hit(tell, passage, "told")] * 5
    assert prose.over_limits(places, 10_000) == {"tell": 0.5}
    assert prose.over_limits(places, 20_000) == {}


def test_allows_one_hit_of_each_marker_in_a_short_text() -> None:
    passage = prose.Passage("a.md", 1, "docs", "")
    whose = next(m for m in prose.MARKERS if m.name == "whose")
    assert prose.over_limits([prose.Hit(whose, passage, "whose")], 50) == {}
    assert prose.over_limits([prose.Hit(prose.LONG_SENTENCE, passage, "x")], 50) != {}


def test_checks_the_form_of_commit_titles() -> None:
    assert (
        prose.problems_of_message("scheduler: skip full agents\n\nThey cannot start work.\n") == []
    )
    assert "form" in prose.problems_of_message("Skip full agents\n")[0]
    assert "72" in prose.problems_of_message(f"scheduler: {'x' * 72}\n")[0]
    (problem,) = prose.problems_of_message("scheduler: tell a full agent\n")
    assert "tell" in problem


def test_the_configured_files_exist_and_pass(capsys: pytest.CaptureFixture[str]) -> None:
    paths = prose.configured_paths()
    assert "README.md" in paths
    assert all(prose.files_below([path]) for path in paths)
    assert prose.main([]) == 0, capsys.readouterr().out
