"""The options of a fit, in the form that compiled parts take."""

from typing import Any, NamedTuple

from jaxtyping import Bool, Float, Int

from bmjax._model.groups import Groups
from bmjax._runtime.backend import Array


class Options(NamedTuple):
    """The checked options of a fit as numbers and arrays, so that no value is compiled in.

    Attributes:
        noise_precision: The known noise precision, or None.
        initial_weights: Weights to start from, or None for least squares.
        rates: Inclusion rates to start from, one row for each start.
        unmasked: Whether each feature is never masked and never pruned, or None for none.
        prune_threshold: A feature whose mean mask falls below this is pruned.
        tolerance: Predicted distance to the fixed point that counts as converged.
        max_steps: Largest number of iterations, over all fits of a dataset.
        family: The distribution of y given its predictor, None for the Gaussian.
        groups: Groups of columns that share their mask and rate, or None.
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
        """Whether y is a measurement, which may be shifted and scaled."""
        return self.family is None or self.family.has_units


class Frame(NamedTuple):
    """The conversion of a dataset to the units of the fit, a static argument.

    Attributes:
        intercept: Whether to centre X and y and to add an unmasked feature of ones as the last one.
        standardize: Whether to divide every column and y by its root mean square (after centring).
    """

    intercept: bool = False
    standardize: bool = False

    @property
    def plain(self) -> bool:
        """Whether X and y are used unchanged."""
        return not (self.intercept or self.standardize)


# Rates of the starts from the best subset, as of a feature that a move adds: the second is tried if
# the first has led to nothing better, since a weak feature may be kept only if it is masked.
SPARSE_RATES = (0.99, 0.5)


class Plan(NamedTuple):
    """The plan of the fits of a dataset, a static argument.

    Attributes:
        sparse: Number of starts from the best subset of features.
        dense: Number of starts from all features, at given rates.
        moves: Largest number of moves.
        criterion: Name of the criterion that ranks the fits.
    """

    sparse: int
    dense: int
    moves: int
    criterion: str

    @property
    def starts(self) -> int:
        """Number of starts of both kinds."""
        return self.sparse + self.dense

    @property
    def fits(self) -> int:
        """Largest number of fits of a dataset."""
        return self.starts + self.moves
