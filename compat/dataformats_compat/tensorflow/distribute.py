"""`tf.distribute`: the types that input functions of distributed programs take. There are no strategies."""

from __future__ import annotations

import dataclasses

__all__ = ["InputContext", "Strategy"]


class Strategy:
    """A type for annotations."""


@dataclasses.dataclass(frozen=True)
class InputContext:
    """Says which input pipeline a function builds: `dataset.shard(num_input_pipelines, input_pipeline_id)`."""

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """Return the size of the batches of one replica.

        Raises:
            ValueError: The replicas cannot have equal batches.
        """
        size, rest = divmod(global_batch_size, self.num_replicas_in_sync)
        if rest:
            raise ValueError(
                f"batch size: expected a multiple of {self.num_replicas_in_sync}, found {global_batch_size}"
            )
        return size
