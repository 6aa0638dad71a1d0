"""The random generator of a search: MT19937 with the same draws as numpy's RandomState."""

import random
from typing import Any

_WORD = 0xFFFFFFFF
_STATE_WORDS = 624
_SKIP_WORDS = 1 << 16
_VARIANTS = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


class Rng:
    """Count the 32-bit words that were drawn, so that a snapshot is a seed and a number."""

    __slots__ = ("_bits", "_double", "drawn", "seed")

    def __init__(self, seed: int, drawn: int = 0) -> None:
        self.seed = seed
        self.drawn = drawn
        generator = random.Random()
        generator.setstate(_seeded_state(seed))
        self._bits = generator.getrandbits
        self._double = generator.random
        for position in range(0, drawn, _SKIP_WORDS):
            self._bits(32 * min(_SKIP_WORDS, drawn - position))

    def uniform(self) -> float:
        """Draw a double in [0, 1) with 53 random bits."""
        self.drawn += 2
        return self._double()

    def below(self, bound: int) -> int:
        """Draw an integer in [0, bound) by masked rejection."""
        highest = bound - 1
        if highest <= 0:
            return 0
        mask = (1 << highest.bit_length()) - 1
        draw = self._word if highest <= _WORD else self._two_words
        number = draw() & mask
        while number > highest:
            number = draw() & mask
        return number

    def integer(self, low: int, high: int) -> int:
        """Draw an integer in [low, high)."""
        return low + self.below(high - low)

    def uuid4(self) -> str:
        """Draw four little-endian words and return them as a version 4 UUID."""
        self.drawn += 4
        text = self._bits(128).to_bytes(16, "little").hex()
        variant = _VARIANTS[text[16]]
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"

    def seed31(self) -> int:
        """Draw the seed of a trial. It equals `below(2**31)`, which never rejects a draw."""
        self.drawn += 1
        return self._bits(32) & 0x7FFFFFFF

    def snapshot(self) -> dict[str, Any]:
        return {"seed": self.seed, "drawn": self.drawn}

    def _two_words(self) -> int:
        return (self._word() << 32) | self._word()

    def _word(self) -> int:
        self.drawn += 1
        return self._bits(32)


def _seeded_state(seed: int) -> tuple[Any, ...]:
    # The standard library seeds with an array. numpy seeds integers with the older init_genrand.
    word = first = seed & _WORD
    rest = [
        word := (1812433253 * (word ^ word >> 30) + i) & 0xFFFFFFFF for i in range(1, _STATE_WORDS)
    ]
    return (3, (first, *rest, _STATE_WORDS), None)
