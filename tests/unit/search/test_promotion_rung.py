"""Waiting trials leave a rung best first, however many wait."""

import random

from det_controlplane.core.search.promotion_rung import PromotionRung

Waiting = tuple[float, int, str]


def entries(count: int, seed: int) -> list[Waiting]:
    chance = random.Random(seed)
    return [(chance.choice((0.5, chance.random())), n, f"t{n}") for n in range(count)]


def test_long_queue_is_ordered_by_loss_and_arrival() -> None:
    chance, rung, model = random.Random(1), PromotionRung(), list[Waiting]()
    popped: list[Waiting | None] = []
    expected: list[Waiting | None] = []
    for entry in entries(8_000, seed=2):
        rung.wait(entry)
        model.append(entry)
        if chance.random() < 0.3:
            model.sort()
            expected.append(model.pop(0))
            popped.append(rung.pop())
    assert popped == expected
    assert rung.clear() == [trial for _, _, trial in sorted(model)]
    assert rung.pop() is None


def test_entries_are_removed_in_order_without_new_arrivals() -> None:
    rung, waiting = PromotionRung(), entries(5_000, seed=4)
    for entry in waiting:
        rung.wait(entry)
    assert [rung.pop() for _ in waiting] == sorted(waiting)
    assert rung.pop() is None


def test_removed_trial_does_not_wait_any_more() -> None:
    rung, waiting = PromotionRung(), entries(3_000, seed=6)
    for entry in waiting:
        rung.wait(entry)
    removed = sorted(waiting)[1]
    rung.remove(removed[2])
    left = [entry for entry in sorted(waiting) if entry != removed]
    assert [rung.pop() for _ in left] == left


def test_restored_rung_continues_in_the_same_order() -> None:
    rung, second_rung, waiting = PromotionRung(), PromotionRung(), entries(5_000, seed=5)
    for entry in waiting[:4_000]:
        rung.wait(entry)
    second_rung.restore(rung.snapshot({"t7"}))
    for entry in waiting[4_000:]:
        rung.wait(entry)
        second_rung.wait(entry)
    assert second_rung.clear() == [trial for trial in rung.clear() if trial != "t7"]
