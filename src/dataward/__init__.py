"""dataward: runs workflows close to their data, for real and simulated."""
