"""Selection of features, credible sets and the summary table from a posterior."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bmjax._checks import validate
from bmjax._model.status import Status
from bmjax._results.summary import feature_frame, page, table_text

_ALIKE = 0.5  # least correlation of columns in one credible set
_LISTED = 5  # supports in the summary


def selected(probability: np.ndarray, always: np.ndarray, share: float) -> np.ndarray:
    """The largest sets whose mean of 1 - probability is at most a share, along the last axis.

    Args:
        probability: Probability of each feature.
        always: Whether each feature is always in; these are selected and do not count.
        share: The largest allowed mean.
    """
    false = np.where(always, -1, 1 - probability)
    order = np.argsort(false, axis=-1, kind="stable")
    false = np.take_along_axis(false, order, -1)
    free = false >= 0
    mean = np.cumsum(np.where(free, false, 0), axis=-1) / np.maximum(np.cumsum(free, axis=-1), 1)
    number = np.sum(mean <= share, axis=-1, keepdims=True)
    return np.argsort(order, axis=-1, kind="stable") < number


def credible_sets(posterior: Any, level: float) -> list[tuple[tuple[int, ...], float]]:
    """The credible sets of a posterior in NumPy arrays; see `Posterior.credible_sets`."""
    mixture = posterior.mixture
    real = np.flatnonzero(mixture.features < len(posterior.coef))
    features, inside = mixture.features[real], mixture.inside[:, real]
    weight, alike = mixture.probability, np.abs(mixture.correlation[np.ix_(real, real)])
    probability = posterior.probability[features]
    left = ~posterior.unmasked[features]
    sets = []
    for seed in np.argsort(-probability, kind="stable"):
        if not left[seed]:
            continue
        members, covered, chance = [int(seed)], inside[:, seed].copy(), float(probability[seed])
        candidates = left & (alike[seed] >= _ALIKE)
        candidates[seed] = False
        while chance < level and candidates.any():
            gain = (weight * ~covered) @ inside
            gain[~candidates] = -1
            best = int(np.argmax(gain))
            if gain[best] <= 0:
                break
            members.append(best)
            candidates[best] = False
            covered |= inside[:, best]
            chance += float(gain[best])
        if chance >= level:
            left[members] = False
            sets.append((tuple(int(features[i]) for i in members), min(chance, 1.0)))
    return sets


@dataclass(frozen=True)
class PosteriorSummary:
    """The table and facts of a posterior. `print` it, or take `to_pandas()`; a notebook shows it.

    Attributes:
        names: Names of the features.
        columns: The columns of the table by name: probability, its error, coef, standard error, and
            the ends of the 95 % interval.
        facts: Facts about the posterior as a whole, by name.
        supports: The most probable supports, as names, and their probabilities.
    """

    names: tuple[str, ...]
    columns: dict[str, np.ndarray]
    facts: dict[str, str]
    supports: tuple[tuple[str, float], ...]

    @classmethod
    def of(
        cls, posterior: Any, names: tuple[str, ...], lower: np.ndarray, upper: np.ndarray
    ) -> "PosteriorSummary":
        """The summary of a posterior in NumPy arrays."""
        status = Status(int(posterior.status))
        mean_size = float(posterior.size @ np.arange(len(posterior.size)))
        facts = {"intercept": f"{float(posterior.intercept):.5g}"}
        family, deviation = posterior.family, f"{np.sqrt(posterior.noise_variance):.4g}"
        if family is None:
            facts["noise (standard deviation)"] = deviation
        else:
            facts["family"] = family.name
        if family is not None and family.has_units:
            facts["noise (scale)"] = f"{deviation}, {float(family.degrees):.3g} degrees of freedom"
        facts["number of features, mean"] = f"{mean_size:.3g}"
        steps = int(posterior.num_steps)
        if steps:
            worst = float(np.max(posterior.probability_error))
            facts["steps of each chain"] = f"{steps}"
            facts["largest Monte Carlo error"] = f"{worst:.2g}"
            facts["R-hat of the log posterior"] = f"{float(posterior.r_hat):.3f}"
        facts["status"] = f"{status.name}: {_verdict(status, steps)}"
        chosen = []
        for inside, share in zip(posterior.supports, posterior.mixture.probability, strict=True):
            if len(chosen) == _LISTED or share <= 0:
                break
            who = ", ".join(names[j] for j in np.flatnonzero(inside)) or "none"
            chosen.append((who, float(share)))
        return cls(
            names=names,
            columns={
                "probability": posterior.probability,
                "probability_error": posterior.probability_error,
                "coef": posterior.coef,
                "standard_error": posterior.standard_errors,
                "lower": lower,
                "upper": upper,
            },
            facts=facts,
            supports=tuple(chosen),
        )

    def to_pandas(self) -> Any:
        """The features as a `pandas.DataFrame`, names in its index.

        Raises:
            ModuleNotFoundError: If pandas is not installed.
        """
        return feature_frame(self.names, self.columns)

    def __str__(self) -> str:
        """The table, with the most probable features first, then the facts and supports."""
        lines = [table_text(self._rows(), self.facts)]
        lines.append("most probable supports")
        lines += [f"  {share:.3f}  {who}" for who, share in self.supports]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The summary as HTML, for notebooks."""
        notes = [f"Support of probability {share:.3f}: {who}" for who, share in self.supports]
        return page(self._rows(), self.facts, notes)

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            ("feature", "probability", "coef", "std. error", "95 % interval")
        ]
        for i in np.argsort(-self.columns["probability"], kind="stable"):
            rows.append(
                (
                    self.names[i],
                    f"{self.columns['probability'][i]:.3f}",
                    f"{self.columns['coef'][i]:.5g}",
                    f"{self.columns['standard_error'][i]:.4g}",
                    f"{self.columns['lower'][i]:.4g} to {self.columns['upper'][i]:.4g}",
                )
            )
        return rows


def _verdict(status: Status, steps: int) -> str:
    if status == Status.CONVERGED:
        return "the chains agree." if steps else "every support was looked at."
    if status == Status.MAX_STEPS:
        return "stopped at max_steps before the chains agreed. Raise max_steps or the tolerance."
    if status == Status.EXACT_FIT:
        return "the data are fitted to rounding error, so probabilities say little."
    if status == Status.SEPARATED:
        return (
            "a probable support tells the two outcomes apart without error, so the prior alone "
            "bounds the effects, and probabilities are rough."
        )
    return status.message


def on_host(result: Any, place: tuple[int, ...]) -> Any:
    """The posterior of one dataset in NumPy arrays of float64."""

    def taken(leaf: Any) -> np.ndarray:
        leaf = np.asarray(leaf)[place]
        return leaf.astype(float) if np.issubdtype(leaf.dtype, np.floating) else leaf

    return jax.tree.map(taken, result)


def checked_level(level: Any) -> float:
    """The level of an interval or set, checked to be a probability above 0."""
    return float(validate.number("level", level, float, low=0, high=1, open_low=True))
