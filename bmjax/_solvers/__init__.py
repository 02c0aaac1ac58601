"""From one start to one optimum: the paper's solvers, the accelerated one, when to stop."""
