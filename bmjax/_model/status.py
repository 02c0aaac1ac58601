"""The status with which a fit ends."""

from enum import IntEnum


class Status(IntEnum):
    """The status of a fit, one code for each dataset. Its `message` explains it, with the remedy.

    Attributes:
        RUNNING: 0, the fit has not ended; also the code of moves that were not made.
        CONVERGED: 1, every parameter is within the tolerance of its fixed point.
        MAX_STEPS: 2, stopped at `max_steps` before it converged.
        STALLED: 3, the bound no longer rises, or the remaining moves are below rounding.
        EXACT_FIT: 4, the data are fitted to rounding error.
        NON_FINITE: 5, NaN, infinity, or values whose squares the type cannot hold.
        SEPARATED: 6, the features tell two outcomes apart without error.

    Example:
        >>> import bmjax
        >>> fit = bmjax.fit(*bmjax.datasets.load_diabetes()[:2], intercept=True)
        >>> bmjax.Status(int(fit.status)).name
        'CONVERGED'
        >>> bmjax.Status.MAX_STEPS.message.split(":")[0]
        'Stopped at max_steps before it converged'
    """

    RUNNING = 0
    CONVERGED = 1
    MAX_STEPS = 2
    STALLED = 3
    EXACT_FIT = 4
    NON_FINITE = 5
    SEPARATED = 6

    @property
    def message(self) -> str:
        """The status explained in a sentence or two."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.RUNNING: "The fit has not ended.",
    Status.CONVERGED: (
        "Every parameter is within the tolerance of its fixed point, as far as the floating-point "
        "type can tell."
    ),
    Status.MAX_STEPS: (
        "Stopped at max_steps before it converged: features may still be on their way to being "
        "pruned. Raise max_steps or the tolerance."
    ),
    Status.STALLED: (
        "Stopped without converging: the bound no longer rises, or the moves left are below the "
        "resolution of the floating-point type. The best state found is returned. Lower the "
        "learning rate, use another solver, or use float64."
    ),
    Status.EXACT_FIT: (
        "The data are fitted to rounding error, so the noise precision is only a cap and the "
        "bound cannot tell noise from signal. Expected for noiseless data; otherwise there are "
        "too many features for the samples."
    ),
    Status.NON_FINITE: (
        "The fit met NaN, infinity or values whose squares the floating-point type cannot hold. "
        "Check X and y for missing or infinite entries; bring columns and y into units in which "
        "they are neither huge nor tiny (or give standardize=True). The y of a logistic fit holds "
        "0 and 1 only."
    ),
    Status.SEPARATED: (
        "The kept features tell the two outcomes apart without error, so larger weights would "
        "always fit better and there are no best ones; those returned are where the fit was "
        "stopped. Expected where a feature is the outcome in disguise; otherwise there are too "
        "many features for the samples."
    ),
}
