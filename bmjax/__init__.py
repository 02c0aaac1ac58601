"""Bayesian masking: sparse linear regression without shrinkage, batched with JAX.

Start with `fit`: `print(bmjax.fit(X, y, intercept=True).summary())`. `fit_batch` fits many datasets
at once, `fit_stream` fits more rows than memory holds, `posterior` computes the probability of each
feature, `stability_selection` and `bootstrap` measure how much a fit depends on the samples,
`monte_carlo` compares methods on simulated datasets, `load` reads a saved fit. `bmjax.plots` draws
fits (matplotlib), `bmjax.sklearn` has estimators for scikit-learn, and `python -m bmjax` fits a CSV
file.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# The module of each public name. A name is imported when it is first used, so that the command can
# answer `--help` and report mistakes without waiting for JAX.
_HOMES = {
    "_fitting.batch": ("fit_batch",),
    "_fitting.bootstrap": ("Bootstrap", "bootstrap"),
    "_fitting.fit": ("fit",),
    "_fitting.stability": ("StabilitySelection", "stability_selection"),
    "_model.bound": ("log_evidence_bound", "lower_bound"),
    "_model.distributions": ("Logistic", "Student"),
    "_model.problem": ("Problem", "State"),
    "_model.status": ("Status",),
    "_model.steps": ("e_step", "g_step", "m_step", "prune"),
    "_posterior.mixture": ("Mixture",),
    "_posterior.posterior": ("posterior",),
    "_posterior.result": ("Posterior",),
    "_results.names": ("Names",),
    "_results.refit": ("RefitResult",),
    "_results.parts": ("History", "LaneSteps", "Moments", "Starts", "Uncertainty"),
    "_results.result": ("Result",),
    "_results.saved": ("load", "save"),
    "_results.summary": ("RefitSummary", "Summary"),
    "_selection.starts": ("initialise",),
    "_solvers.accelerated": ("Accelerated",),
    "_solvers.paper": ("EG", "EM", "Hybrid"),
    "_stream.fit_stream": ("fit_stream",),
    "_study.methods": ("batched", "on_host"),
    "_study.monte_carlo": ("monte_carlo",),
    "_study.study": ("Study",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("baselines", "datasets", "metrics", "shrinkage", "simulate")
_WITH_EXTRAS = ("plots", "sklearn")

__all__ = sorted([*_HOME_OF, *_MODULES])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value = version("bmjax")
    elif name in _HOME_OF:
        value = getattr(import_module(f"bmjax.{_HOME_OF[name]}"), name)
    elif name in _MODULES or name in _WITH_EXTRAS:
        return import_module(f"bmjax.{name}")
    else:
        raise AttributeError(f"module 'bmjax' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_WITH_EXTRAS, "__version__"]


if TYPE_CHECKING:
    from bmjax import baselines as baselines
    from bmjax import datasets as datasets
    from bmjax import metrics as metrics
    from bmjax import shrinkage as shrinkage
    from bmjax import simulate as simulate
    from bmjax._fitting.batch import fit_batch as fit_batch
    from bmjax._fitting.bootstrap import Bootstrap as Bootstrap
    from bmjax._fitting.bootstrap import bootstrap as bootstrap
    from bmjax._fitting.fit import fit as fit
    from bmjax._fitting.stability import StabilitySelection as StabilitySelection
    from bmjax._fitting.stability import stability_selection as stability_selection
    from bmjax._model.bound import log_evidence_bound as log_evidence_bound
    from bmjax._model.bound import lower_bound as lower_bound
    from bmjax._model.distributions import Logistic as Logistic
    from bmjax._model.distributions import Student as Student
    from bmjax._model.problem import Problem as Problem
    from bmjax._model.problem import State as State
    from bmjax._model.status import Status as Status
    from bmjax._model.steps import e_step as e_step
    from bmjax._model.steps import g_step as g_step
    from bmjax._model.steps import m_step as m_step
    from bmjax._model.steps import prune as prune
    from bmjax._posterior.mixture import Mixture as Mixture
    from bmjax._posterior.posterior import posterior as posterior
    from bmjax._posterior.result import Posterior as Posterior
    from bmjax._results.names import Names as Names
    from bmjax._results.parts import History as History
    from bmjax._results.parts import LaneSteps as LaneSteps
    from bmjax._results.parts import Moments as Moments
    from bmjax._results.parts import Starts as Starts
    from bmjax._results.parts import Uncertainty as Uncertainty
    from bmjax._results.refit import RefitResult as RefitResult
    from bmjax._results.result import Result as Result
    from bmjax._results.saved import load as load
    from bmjax._results.saved import save as save
    from bmjax._results.summary import RefitSummary as RefitSummary
    from bmjax._results.summary import Summary as Summary
    from bmjax._selection.starts import initialise as initialise
    from bmjax._solvers.accelerated import Accelerated as Accelerated
    from bmjax._solvers.paper import EG as EG
    from bmjax._solvers.paper import EM as EM
    from bmjax._solvers.paper import Hybrid as Hybrid
    from bmjax._stream.fit_stream import fit_stream as fit_stream
    from bmjax._study.methods import batched as batched
    from bmjax._study.methods import on_host as on_host
    from bmjax._study.monte_carlo import monte_carlo as monte_carlo
    from bmjax._study.study import Study as Study

    __version__: str
