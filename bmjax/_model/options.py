"""What was asked of a fit, as the compiled parts see it."""

from typing import Any, NamedTuple

from jaxtyping import Bool, Float, Int

from bmjax._model.groups import Groups
from bmjax._runtime.backend import Array


class Options(NamedTuple):
    """The checked arguments of a fit that are numbers, so that none of them is compiled in.

    Attributes:
        noise_precision: The known noise precision, or None.
        initial_weights: Weights to start from, or None.
        rates: Inclusion rates to start from, a row a start.
        unmasked: Features that are never masked and never pruned, or None.
        prune_threshold: A feature whose mean mask falls below this is pruned.
        tolerance: Predicted distance to the fixed point that counts as converged.
        max_steps: Most iterations, over all fits of a dataset.
        family: The distribution of y given its predictor, None for the Gaussian.
        groups: Columns that have their mask and rate in common, or None.
    """

    noise_precision: Float[Array, ""] | None
    initial_weights: Float[Array, " k"] | None
    rates: Float[Array, "s k"]
    unmasked: Bool[Array, " k"] | None
    prune_threshold: Float[Array, ""]
    tolerance: Float[Array, ""]
    max_steps: Int[Array, ""]
    family: Any = None
    groups: Groups | None = None

    @property
    def has_units(self) -> bool:
        """Whether y may be moved and scaled."""
        return self.family is None or self.family.has_units


class Frame(NamedTuple):
    """How a dataset is brought into the form that is fitted, a static argument.

    Attributes:
        intercept: Centre, and add an unmasked feature of ones, the last one.
        standardize: Divide every column and y by its root mean square (after centring).
    """

    intercept: bool = False
    standardize: bool = False

    @property
    def plain(self) -> bool:
        """Whether X and y are taken as they are."""
        return not (self.intercept or self.standardize)


# Rates of the starts from the best subset, and of a feature that a move adds: where the first has
# led to nothing better, since a weak feature may be kept only if it is masked, the second.
SPARSE_RATES = (0.99, 0.5)


class Plan(NamedTuple):
    """How many fits a dataset gets, a static argument.

    Attributes:
        sparse: Starts from the best subset of features.
        dense: Starts at given rates.
        moves: Most moves.
        criterion: Name of the rule that ranks the fits.
    """

    sparse: int
    dense: int
    moves: int
    criterion: str

    @property
    def starts(self) -> int:
        """Starts of either kind."""
        return self.sparse + self.dense

    @property
    def fits(self) -> int:
        """Most fits a dataset may get."""
        return self.starts + self.moves
