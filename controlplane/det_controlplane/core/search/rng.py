"""The generator of a search: MT19937, drawing what numpy's RandomState would (facts §4.1)."""

import random
from typing import Any

_WORD = 0xFFFFFFFF
_STATE_WORDS = 624
_SKIP_WORDS = 1 << 16


class Rng:
    """Counts the 32-bit words it draws, so that a snapshot is a seed and a number."""

    __slots__ = ("_random", "drawn", "seed")

    def __init__(self, seed: int, drawn: int = 0) -> None:
        self.seed = seed
        self.drawn = drawn
        self._random = random.Random()
        self._random.setstate(_seeded_state(seed))
        for skipped in range(0, drawn, _SKIP_WORDS):
            self._random.getrandbits(32 * min(_SKIP_WORDS, drawn - skipped))

    def uniform(self) -> float:
        """A double in [0, 1) with 53 random bits."""
        self.drawn += 2
        return self._random.random()

    def below(self, bound: int) -> int:
        """An integer in [0, bound), by masked rejection."""
        highest = bound - 1
        if highest <= 0:
            return 0
        words = 1 if highest <= _WORD else 2
        mask = (1 << highest.bit_length()) - 1
        while True:
            drawn = self._word() if words == 1 else (self._word() << 32) | self._word()
            if drawn & mask <= highest:
                return drawn & mask

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high)."""
        return low + self.below(high - low)

    def uuid4(self) -> str:
        """Sixteen bytes, four words little-endian, with the bits of a version 4 UUID forced."""
        self.drawn += 4
        raw = bytearray(self._random.getrandbits(128).to_bytes(16, "little"))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def snapshot(self) -> dict[str, Any]:
        return {"seed": self.seed, "drawn": self.drawn}

    def _word(self) -> int:
        self.drawn += 1
        return self._random.getrandbits(32)


def _seeded_state(seed: int) -> tuple[Any, ...]:
    # The standard library seeds by array; numpy's integer seeding is the older init_genrand.
    words = [seed & _WORD]
    for i in range(1, _STATE_WORDS):
        previous = words[-1]
        words.append((1812433253 * (previous ^ (previous >> 30)) + i) & _WORD)
    return (3, (*words, _STATE_WORDS), None)
