"""Where new data grow, and how they get their final name."""
