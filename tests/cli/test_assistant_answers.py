"""Answers of `det mcp` have at most 2,000 tokens."""

import json

import pytest
from det_cli.assistants.answers import MOST_TOKENS, page, tokens, written

ID = "ac16e1a6-4e8c-4f62-9beb-2830812643de"
LINE = "2026-11-30T09:00:01.123Z [rank 0] step 17 loss=0.134364 lr=8.47e-01 grad_norm=7.638"
CHINESE = "训练已经开始，损失函数正在下降。"
KEY = "n3WLG9OmAOfdbLO5YOZiiO6oGB8THxANzFUkJl5lRDXNfPxOMF9sKQ2v"
JSON = '{"batches":300,"metrics":{"loss":0.134364,"accuracy":0.847434}}'


@pytest.mark.parametrize(
    ("text", "measured"),
    # The larger number of tokens in cl100k_base and o200k_base, counted once with gpt-tokenizer 4.0.0.
    [(ID, 24), (LINE, 43), (CHINESE, 17), (KEY, 41), (JSON, 22)],
)
def test_the_bound_is_at_least_the_count_of_real_tokenizers(text: str, measured: int) -> None:
    assert measured <= tokens(text) <= 2 * measured + 4


@pytest.mark.parametrize("text", [ID, LINE, CHINESE, KEY, JSON, '"\\', "🙂"])
def test_long_answers_are_cut_to_the_limit(text: str) -> None:
    assert tokens(written({"value": text * 2000})) <= MOST_TOKENS
    assert tokens(written({f"{n}": text for n in range(2000)})) <= MOST_TOKENS


@pytest.mark.parametrize("row", [ID, LINE, CHINESE, {"metrics": {"loss": 0.123456, "id": ID}}])
def test_pages_fit_and_miss_no_row(row: object) -> None:
    rows, seen, offset = [row] * 200, 0, 0
    while True:
        answer = page("rows", rows[offset:], offset, len(rows))
        assert tokens(written(answer)) <= MOST_TOKENS
        assert json.loads(written(answer)) == answer
        seen += len(answer["rows"])
        if "next_cursor" not in answer:
            break
        offset = int(answer["next_cursor"])
    assert seen == len(rows)
