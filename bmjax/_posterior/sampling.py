"""The posterior over supports of many features: chains run side by side until they agree."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from bmjax._posterior.agreement import Kept, agreement
from bmjax._posterior.chains import Ground, Table, Tally, tabulated
from bmjax._posterior.given import Squared
from bmjax._posterior.start import starting_support
from bmjax._posterior.sums import Sums
from bmjax._posterior.working_set import at_large, drawn, log_chance, round_of_steps
from bmjax._runtime import ladder, rows
from bmjax._runtime.programs import PROGRAMS
from bmjax._runtime.threads import Settings, cores

GROUP = 8  # chains that run side by side on one core
STEPS = 256  # steps in a round, after which the chains are compared
_FEWEST = 4  # least number of rounds
BURN = 4  # a quarter of the rounds is left out as burn-in


class Width(NamedTuple):
    """The sizes of working sets for the chains of wide data.

    Attributes:
        every: With up to this many features, all are in the working set.
        core: Number of features in the core, which are always in the set.
        least: Least number of features in the set.
        spare: Number of features in the set beyond twice the size of the support.
    """

    every: int
    core: int
    least: int
    spare: int


_WIDE = Width(every=96, core=64, least=96, spare=48)
_SEEN_ANEW = tuple(2**i for i in range(20))
_LEAST_PACE = 0.05  # of a feature whose probability seems to be known; the largest is one
_ROOM = 0.8  # share of the working set that a support may fill


class Plan(NamedTuple):
    """The number of chains and the rule that ends them.

    Attributes:
        chains: Number of chains, a multiple of eight.
        tolerance: Largest allowed Monte Carlo error of a probability.
        max_steps: Largest number of steps of a chain.
        mesh: The devices that the chains are spread over, or None.
    """

    chains: int
    tolerance: float
    max_steps: int
    mesh: Mesh | None


def sampled(squares: Squared, words: list[int], plan: Plan, report: Callable[[int], None]) -> Kept:
    """Run the chains of a dataset until they agree; return their record.

    Args:
        squares: The squared errors of the dataset, and the evidence that judges a support.
        words: The integers that seed the draws.
        plan: The number of chains and the rule that ends them.
        report: A function that is called with the number of steps made.
    """
    sums, evidence, most = squares
    f = len(sums.columns)
    generator = np.random.default_rng([*words, 1])
    begin, least = starting_support(sums, evidence, most)
    wide = f > _WIDE.every
    if wide:
        width = min(max(_WIDE.least, 2 * int(begin.sum()) + _WIDE.spare), f)
        most = min(most, int(_ROOM * width))
    else:
        width = ladder.features(f)
    # Padded to the width, so that few shapes are compiled.
    log_size = np.full(width + 1, -np.inf)
    log_size[: most + 1] = evidence.log_size[: most + 1]
    evidence = evidence._replace(log_size=log_size)
    table = PROGRAMS.call(tabulated, evidence, np.asarray(least), static={})
    here = _Run(sums, table, most, width, wide, generator, plan.mesh)
    supports = _dispersed(generator, begin, plan.chains, most)
    kept = Kept(evidence.log_size.shape[-1], here.mark)
    inherited = Settings.here()
    group = GROUP if plan.mesh is None else plan.chains  # on several devices all at once
    with ThreadPoolExecutor(min(cores(), plan.chains // group)) as pool:

        def in_groups(work: Callable[[slice], Any]) -> list[Any]:
            def one(first: int) -> Any:
                with inherited.in_this_thread():
                    return work(slice(first, first + group))

            return list(pool.map(one, range(0, plan.chains, group)))

        rounds, end = 0, None
        while end is None or not (rounds >= _FEWEST and end.agreed(plan.tolerance)):
            if rounds and (rounds + 1) * STEPS > max(plan.max_steps, _FEWEST * STEPS):
                break
            keys = _keys(words, rounds, plan.chains)
            supports = here.round(supports, keys, in_groups, kept)
            rounds += 1
            report(STEPS)
            if rounds >= _FEWEST:
                end = agreement(kept, -(-rounds // BURN))
    return kept


def _keys(words: list[int], rounds: int, chains: int) -> Any:
    """A random key for each chain and round."""
    draws = np.random.default_rng([*words, 0, rounds]).integers(0, 2**32, (chains, 2), np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(draws))


def _dispersed(
    generator: np.random.Generator, begin: np.ndarray, chains: int, most: int
) -> np.ndarray:
    """The starting supports: a good support for half of the chains, far from it for the others."""
    f, size = len(begin), max(int(begin.sum()), 2)
    supports = np.repeat(begin[None], chains, axis=0)
    for c in range(chains // 2):
        others = generator.choice(f, min(size, f), replace=False)
        supports[c] &= generator.random(f) < 0.5
        supports[c, others[: max(most - int(supports[c].sum()), 0)]] = True
    return supports


class _Run:
    """The running chains of one dataset."""

    def __init__(  # noqa: PLR0913 - what stays the same from round to round
        self,
        sums: Sums,
        table: Table,
        most: int,
        width: int,
        wide: bool,
        generator: np.random.Generator,
        mesh: Mesh | None,
    ):
        self.width, self.wide, self.generator, self.mesh = width, wide, generator, mesh
        f = len(sums.columns)
        self.mark = generator.integers(-(2**62), 2**62, f)
        core = _WIDE.core if wide else width
        self.core = np.zeros(f, bool)
        self.score = np.zeros(f)
        self.number = core
        chance = log_chance(f, core, width, width + 1) if wide else np.zeros(2)
        self.ground = Ground(
            table=table,
            most=np.int32(most),
            pace=np.ones(width),
            anchors=np.zeros(width),
            elsewhere=np.zeros(width, bool),
            chance=chance,
        )
        self.rounds = 0
        self.pace = np.ones(f)
        if wide:
            # Few numbers of rows are compiled; rows of zeros change no sum.
            spare = ladder.filled_shape(sums.columns.shape[1], f)[0] - sums.columns.shape[1]
            self.columns = np.pad(sums.columns, ((0, 0), (0, spare)))
            self.target = np.pad(sums.target, (0, spare))
        else:
            self.gram = _filled(sums.columns @ sums.columns.T, width)
            self.slope = np.pad(sums.columns @ sums.target, (0, width - f))

    def round(self, supports: np.ndarray, keys: Any, in_groups: Any, kept: "Kept") -> np.ndarray:
        """Run one round of all chains; return their supports after it."""
        # The features that are known least move most often. Their paces are renewed after 1, 2, 4,
        # ... rounds, so ever more seldom, which the chains need to converge.
        if kept.tallies and len(kept.tallies) in _SEEN_ANEW:
            self.pace = _paces(agreement(kept, len(kept.tallies) // 2).error)
        return (self._wide if self.wide else self._whole)(supports, keys, in_groups, kept)

    def _whole(self, supports: np.ndarray, keys: Any, in_groups: Any, kept: "Kept") -> np.ndarray:
        f = supports.shape[1]
        inside = np.pad(supports, ((0, 0), (0, self.width - f)))
        nowhere = np.zeros_like(inside)
        pace = np.pad(self.pace, (0, self.width - f))
        ground = self.ground._replace(pace=pace)
        anchors = pace[None].repeat(len(inside), 0)

        def work(group: slice) -> Any:
            own = inside[group], nowhere[group], anchors[group], keys[group]
            shared = self.gram, self.slope, ground
            return rows.call(round_of_steps, own, shared, self.mesh, steps=STEPS)

        inside, tally, visits = _joined(in_groups(work))
        tally = Tally(np.repeat(tally.time[:, None], f, 1), *(t[:, :f] for t in tally[1:]))
        kept.add(tally, visits, visits.inside[:, :, :f], np.arange(f)[None].repeat(len(inside), 0))
        return inside[:, :f]

    def _wide(self, supports: np.ndarray, keys: Any, in_groups: Any, kept: "Kept") -> np.ndarray:
        columns, target = self.columns, self.target
        f, chains = len(columns), len(supports)
        slots = ladder.slots(int(supports.sum(axis=1).max()), f)
        at = np.stack(
            [np.pad(np.flatnonzero(s), (0, slots - s.sum()), constant_values=f) for s in supports]
        ).astype(np.int32)

        def look(group: slice) -> Any:
            return rows.call(at_large, (at[group],), (columns, target, self.ground), self.mesh)

        around, fits = _joined(in_groups(look))
        # In the first rounds the core holds the features that fit in best; then it stays fixed.
        if self.rounds < 2 * _FEWEST:
            best = np.max(fits, axis=0) + 10.0 * supports.any(axis=0)
            self.score = np.maximum(self.score, best)
            self.core[:] = False
            self.core[np.argsort(-self.score, kind="stable")[: self.number]] = True
            supports = self._within(supports)
        self.rounds += 1
        sets = np.stack([drawn(self.generator, s, self.core, self.width) for s in supports])
        inside = np.take_along_axis(supports, sets, 1)
        elsewhere = ~self.core[sets]
        # Flips have one pace here: each of the many improbable features is known well, but the size
        # of the support, which all others depend on, is known only once most of them have flipped.
        anchors = self.pace[sets]

        def work(group: slice) -> Any:
            chosen = columns[sets[group]]
            gram, slope = chosen @ chosen.transpose(0, 2, 1), chosen @ target
            own = inside[group], elsewhere[group], anchors[group], keys[group], gram, slope
            return rows.call(round_of_steps, own, (self.ground,), self.mesh, steps=STEPS)

        _, tally, visits = _joined(in_groups(work))
        full = Tally(np.ones((chains, f)), *(np.array(a) for a in around[1:]))
        row = np.arange(chains)[:, None]
        for new, old in zip(
            (np.repeat(tally.time[:, None], self.width, 1), *tally[1:]), full, strict=True
        ):
            old[row, sets] = np.where(elsewhere, old[row, sets], new)
        kept.add(full, visits, visits.inside, sets)
        # The state is taken at a random time in the second half: at the time of a jump, a chain is
        # most often in a support that it leaves quickly.
        late = visits.hold[:, STEPS // 2 :]
        sums = np.cumsum(late, axis=1)
        draw = self.generator.random(chains) * sums[:, -1]
        step = STEPS // 2 + np.minimum((sums <= draw[:, None]).sum(axis=1), late.shape[1] - 1)
        after = np.zeros_like(supports)
        after[row, sets] = visits.inside[np.arange(chains), step]
        return after

    def _within(self, supports: np.ndarray) -> np.ndarray:
        """Supports cut by dropping random features to fit into a working set beside a new core."""
        supports = np.array(supports)
        room = self.width - self.number
        for own in supports:
            outside = np.flatnonzero(own & ~self.core)
            if len(outside) > room:
                own[self.generator.choice(outside, len(outside) - room, replace=False)] = False
        return supports


def _paces(error: np.ndarray) -> np.ndarray:
    """How often each feature is to move: in proportion to the Monte Carlo error it is known with.

    A feature that is known well would otherwise take most of the steps, as there are many such.
    """
    return np.maximum(error / max(np.max(error), 1e-300), _LEAST_PACE)


def _filled(gram: np.ndarray, width: int) -> np.ndarray:
    spare = width - len(gram)
    return np.pad(gram, ((0, spare), (0, spare)))


def _joined(parts: list[Any]) -> Any:
    """The results of groups of chains, concatenated."""
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
