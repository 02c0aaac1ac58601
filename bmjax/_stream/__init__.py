"""`fit_stream`: the fit of data that are read in blocks."""
