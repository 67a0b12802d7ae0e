"""The loader: shuffled batches, prefetched, with a state from which a run resumes exactly."""
