"""`fit_stream`: fits of data that are read in blocks."""
