"""The loader: which records a batch holds, how it is made ahead of time, and a state that continues exactly."""
