"""Print the ranks and the strategy of a script under the tensorflow launcher."""

import json

from determined import core

distributed, strategy = core.DistributedContext.from_tf_config()
with core.init(distributed=distributed) as context:
    print(
        json.dumps(
            {
                "rank": distributed.rank,
                "size": distributed.size,
                "cross_rank": distributed.cross_rank,
                "local_size": distributed.local_size,
                "strategy": type(strategy).__name__,
                "replicas": strategy.num_replicas_in_sync,
                "ranks": context.distributed.allgather(distributed.rank),
            }
        )
    )
