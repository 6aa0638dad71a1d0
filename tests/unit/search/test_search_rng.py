"""The generator draws the same numbers as numpy's RandomState."""

import numpy
import pytest
from det_controlplane.core.hparams import Categorical, Double, Int, Log, Space
from det_controlplane.core.search.rng import Rng
from det_controlplane.core.search.sampling import Sampler

SPACE: Space = {
    "act": Categorical(("relu", "tanh", "gelu")),
    "lr": Log(-4, -1, 10),
    "momentum": Double(0.5, 0.9),
    "units": Int(16, 64),
}


@pytest.mark.parametrize(
    ("seed", "low", "high", "expected"),
    [
        (42, 0, 10, [6, 3, 7, 4, 6, 9, 2, 6, 7, 4]),
        (84, -10, 10, [0, 7, 4, 3, -10]),
        (999, 0, 1 << 31, [1303213504, 648491356, 118207333]),
    ],
)
def test_bounded_integers_match_the_vectors(
    seed: int, low: int, high: int, expected: list[int]
) -> None:
    rng = Rng(seed)
    assert [rng.integer(low, high) for _ in expected] == expected


@pytest.mark.parametrize("seed", [0, 1, 7, 2**31 - 1, 2**32 - 1])
def test_mixed_draws_match_numpy(seed: int) -> None:
    rng, peer = Rng(seed), numpy.random.RandomState(seed)
    for bound in (1, 2, 5, 1000, 1 << 32, (1 << 32) + 5, 1 << 40):
        for _ in range(20):
            assert rng.below(bound) == peer.randint(0, bound, dtype=numpy.int64)
            assert rng.uniform() == peer.random_sample()


@pytest.mark.parametrize("drawn", [1, 623, 624, 625, 65536, 70001])
def test_generator_continues_from_the_number_of_draws(drawn: int) -> None:
    first = Rng(5)
    while first.drawn < drawn:
        first.below(1 << 32)
    second = Rng(5, first.drawn)
    assert [second.uniform() for _ in range(10)] == [first.uniform() for _ in range(10)]


RANDOM_VECTORS = [
    (0, "relu", 0.006005288202683084, 0.8377062994324069, 19),
    (0, "relu", 0.0007809150983452719, 0.5226851909269773, 28),
    (0, "gelu", 0.005059803874660431, 0.8702386553170645, 29),
    (42, "gelu", 0.024526126311336768, 0.5733739159464655, 23),
    (42, "gelu", 0.00014936568554617627, 0.846470458309974, 51),
    (42, "tanh", 0.014655354118727698, 0.8754210836063001, 17),
]
ID_VECTORS = [
    ("677de5d8-09a4-446c-93de-a19f155159a5", 1650906866),
    ("3a392962-c142-487a-a67d-aeca274aeacf", 124102743),
    ("48985f56-091b-4e16-9497-eea573082d05", 1581585360),
    ("bcae4199-142c-4b98-a6d6-f02779182272", 669991378),
    ("67eb9224-973e-44b5-82a0-a0a695064505", 242285876),
    ("bf148c2e-bb93-41fe-9499-f32ea044139e", 1306710475),
]


@pytest.mark.parametrize("seed", [0, 42])
def test_random_search_samples_the_published_trials(seed: int) -> None:
    sampler = Sampler(SPACE, Rng(seed))
    for (of, act, lr, momentum, units), (request_id, trial_seed) in zip(
        RANDOM_VECTORS, ID_VECTORS, strict=True
    ):
        if of == seed:
            create = sampler.create()
            assert create.hparams == {"act": act, "lr": lr, "momentum": momentum, "units": units}
            assert (create.request_id, create.seed) == (request_id, trial_seed)
