"""Bayesian masking: sparse linear regression without shrinkage, batched with JAX."""

from importlib.metadata import version as _version

from bmjax import baselines as baselines
from bmjax import metrics as metrics
from bmjax import shrinkage as shrinkage
from bmjax import simulate as simulate
from bmjax._accelerated import Accelerated as Accelerated
from bmjax._batch import fit_batch as fit_batch
from bmjax._bound import log_evidence_bound as log_evidence_bound
from bmjax._bound import lower_bound as lower_bound
from bmjax._fit import fit as fit
from bmjax._initial import initialise as initialise
from bmjax._outcomes import Study as Study
from bmjax._refit import RefitResult as RefitResult
from bmjax._resampling import Bootstrap as Bootstrap
from bmjax._resampling import StabilitySelection as StabilitySelection
from bmjax._resampling import bootstrap as bootstrap
from bmjax._resampling import stability_selection as stability_selection
from bmjax._result import History as History
from bmjax._result import LaneSteps as LaneSteps
from bmjax._result import Moments as Moments
from bmjax._result import Result as Result
from bmjax._result import Starts as Starts
from bmjax._result import Uncertainty as Uncertainty
from bmjax._solvers import EG as EG
from bmjax._solvers import EM as EM
from bmjax._solvers import Hybrid as Hybrid
from bmjax._steps import e_step as e_step
from bmjax._steps import g_step as g_step
from bmjax._steps import m_step as m_step
from bmjax._steps import prune as prune
from bmjax._stream import fit_stream as fit_stream
from bmjax._study import batched as batched
from bmjax._study import monte_carlo as monte_carlo
from bmjax._study import on_host as on_host
from bmjax._summary import Summary as Summary
from bmjax._types import Problem as Problem
from bmjax._types import State as State
from bmjax._types import Status as Status

__version__ = _version("bmjax")
