"""The normal numbers that R draws after `set.seed`, to reproduce published datasets."""

import numpy as np
from scipy.special import ndtri

_WORD = 2.3283064365386963e-10  # 2^-32 as R writes it
_LEAST = 0.5 * 2.328306437080797e-10  # R's uniforms are never 0 or 1
_FINE = 2**27


class RStream:
    """R's Mersenne Twister with inversion, its default since version 1.7 of the language."""

    def __init__(self, seed: int):
        """Start in the same state as `set.seed(seed)`.

        Args:
            seed: The seed given to R; a linear congruential generator scrambles it first.
        """
        state, words = seed, []
        for _ in range(50):
            state = (69069 * state + 1) % 2**32
        for _ in range(625):
            state = (69069 * state + 1) % 2**32
            words.append(state)
        # The first word holds R's position, which starts at the end of a block.
        self._twister = np.random.RandomState()
        self._twister.set_state(("MT19937", np.array(words[1:], np.uint32), 624, 0, 0.0))

    def normal(self, size: int) -> np.ndarray:
        """The next standard normal numbers, as `rnorm(size)` gives them, (size,)."""
        words = self._twister.randint(0, 2**32, size=2 * size, dtype=np.uint32)
        uniform = np.clip(words * _WORD, _LEAST, 1 - _LEAST)
        return ndtri((np.floor(_FINE * uniform[::2]) + uniform[1::2]) / _FINE)
