"""Rules for the first words of docstrings."""

import ast

from tests.test_architecture import ROOT, Module, functions, is_written_by_hand, modules

# Docstrings with these first words do not describe the function.
NO_VERBS = frozenset((
    "a", "all", "also", "an", "at", "after", "as", "by", "because", "before", "each", "every", "everybody",
    "everything", "for", "how", "if", "in", "is", "it", "its", "long", "more", "most", "no", "nobody", "none",
    "nothing", "of", "often", "older", "on", "once", "one", "only", "our", "ours", "several", "so", "somebody",
    "such", "than", "that", "the", "their", "there", "these", "they", "this", "those", "too", "true", "two", "false",
    "until", "what", "when", "where", "whether", "which", "who", "whose", "why", "with", "without",
))  # fmt: skip


# First words of docstrings of classes and modules that do not name the subject.
NO_SUBJECTS = frozenset((
    "both", "everybody", "everyone", "everything", "for", "from", "how", "it", "no", "nobody", "none", "nothing", "one",
    "so", "somebody", "someone", "something", "that", "there", "they", "too", "what", "whatever", "when", "where",
    "whether", "which", "who", "whoever", "whose", "why",
))  # fmt: skip


def _begins_with_a_verb(docstring: str) -> bool:
    first = docstring.split(maxsplit=1)[0].strip(",.:;")
    return first[:1].isupper() and first.lower() not in NO_VERBS


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    tools = [
        Module(path.stem, path, ast.parse(path.read_text("utf-8")))
        for folder in ("bench", "scripts")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    docstrings = [
        (m, node, ast.get_docstring(node)) for m in (*modules(), *tools) for node in functions(m)
    ]
    problems = [
        f"{m.path.relative_to(ROOT)}:{node.lineno} {node.name}: {text.splitlines()[0]}"
        for m, node, text in docstrings
        if text and not _begins_with_a_verb(text)
    ]
    assert len(tools) > 40
    assert problems == []


def test_docstrings_without_a_verb_are_recognised() -> None:
    assert _begins_with_a_verb("Return the best trial.")
    for riddle in ("The best.", "None without a token.", "Who asks becomes known.", "`x`: a y."):
        assert not _begins_with_a_verb(riddle), riddle


def _names_a_subject(docstring: str) -> bool:
    return docstring.split(maxsplit=1)[0].strip(",.:;").lower() not in NO_SUBJECTS


def test_docstrings_of_classes_and_modules_name_their_subject() -> None:
    docstrings = [
        (m, node, ast.get_docstring(node))
        for m in modules()
        for node in ast.walk(m.tree)
        if isinstance(node, ast.ClassDef | ast.Module) and is_written_by_hand(m.path)
    ]
    problems = [
        f"{m.path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"
        for m, node, text in docstrings
        if text and not _names_a_subject(text)
    ]
    assert len(docstrings) > 1000
    assert problems == []


def test_docstrings_without_a_subject_are_recognised() -> None:
    for noun in ("A pool's budget.", "Hold the fields to change.", "The root of a tree."):
        assert _names_a_subject(noun), noun
    for riddle in ("What is None stays.", "Who may report.", "One: the first.", "It waits."):
        assert not _names_a_subject(riddle), riddle
