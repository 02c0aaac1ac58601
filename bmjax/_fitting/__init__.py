"""`fit`, `fit_batch` and resampling: units in, the fits, units out."""
