"""Waiting trials leave a rung best first, however many wait."""

import random

from det_controlplane.core.search.promotion_rung import PromotionRung

Waiting = tuple[float, int, str]


def entries(count: int, seed: int) -> list[Waiting]:
    chance = random.Random(seed)
    return [(chance.choice((0.5, chance.random())), n, f"t{n}") for n in range(count)]


def test_a_long_queue_is_left_in_the_order_of_losses_and_then_of_arrival() -> None:
    chance, rung, model = random.Random(1), PromotionRung(), list[Waiting]()
    left: list[str | None] = []
    expected: list[str | None] = []
    for entry in entries(8_000, seed=2):
        rung.wait(entry)
        model.append(entry)
        if chance.random() < 0.3:
            model.sort()
            expected.append(model.pop(0)[2])
            left.append(rung.pop())
    assert left == expected
    assert rung.clear() == [trial for _, _, trial in sorted(model)]
    assert rung.pop() is None


def test_all_leave_in_order_where_nobody_comes_meanwhile() -> None:
    rung, waiting = PromotionRung(), entries(5_000, seed=4)
    for entry in waiting:
        rung.wait(entry)
    assert [rung.pop() for _ in waiting] == [trial for _, _, trial in sorted(waiting)]
    assert rung.pop() is None


def test_a_rung_taken_up_from_a_snapshot_goes_on_in_the_same_order() -> None:
    rung, again, waiting = PromotionRung(), PromotionRung(), entries(5_000, seed=5)
    for entry in waiting[:4_000]:
        rung.wait(entry)
    again.restore(rung.snapshot({"t7"}))
    for entry in waiting[4_000:]:
        rung.wait(entry)
        again.wait(entry)
    assert again.clear() == [trial for trial in rung.clear() if trial != "t7"]
