"""Bayesian masking: sparse linear regression without shrinkage, batched with JAX."""

from importlib.metadata import version as _version

from bmjax import baselines as baselines
from bmjax import metrics as metrics
from bmjax import shrinkage as shrinkage
from bmjax import simulate as simulate
from bmjax._fitting.batch import fit_batch as fit_batch
from bmjax._fitting.fit import fit as fit
from bmjax._fitting.resampling import Bootstrap as Bootstrap
from bmjax._fitting.resampling import StabilitySelection as StabilitySelection
from bmjax._fitting.resampling import bootstrap as bootstrap
from bmjax._fitting.resampling import stability_selection as stability_selection
from bmjax._model.bound import log_evidence_bound as log_evidence_bound
from bmjax._model.bound import lower_bound as lower_bound
from bmjax._model.problem import Problem as Problem
from bmjax._model.problem import State as State
from bmjax._model.problem import Status as Status
from bmjax._model.steps import e_step as e_step
from bmjax._model.steps import g_step as g_step
from bmjax._model.steps import m_step as m_step
from bmjax._model.steps import prune as prune
from bmjax._posterior.posterior import posterior as posterior
from bmjax._posterior.result import Mixture as Mixture
from bmjax._posterior.result import Posterior as Posterior
from bmjax._results.refit import RefitResult as RefitResult
from bmjax._results.result import History as History
from bmjax._results.result import LaneSteps as LaneSteps
from bmjax._results.result import Moments as Moments
from bmjax._results.result import Result as Result
from bmjax._results.result import Starts as Starts
from bmjax._results.result import Uncertainty as Uncertainty
from bmjax._results.summary import Summary as Summary
from bmjax._selection.starts import initialise as initialise
from bmjax._solvers.accelerated import Accelerated as Accelerated
from bmjax._solvers.paper import EG as EG
from bmjax._solvers.paper import EM as EM
from bmjax._solvers.paper import Hybrid as Hybrid
from bmjax._stream.fit_stream import fit_stream as fit_stream
from bmjax._study.monte_carlo import batched as batched
from bmjax._study.monte_carlo import monte_carlo as monte_carlo
from bmjax._study.monte_carlo import on_host as on_host
from bmjax._study.study import Study as Study

__version__ = _version("bmjax")
