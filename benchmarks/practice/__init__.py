"""How the package does in practice: real data, intervals, stability, against references."""
