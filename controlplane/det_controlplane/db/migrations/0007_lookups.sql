-- Managed trials have no external id: an index over all of them only tempts the planner away from the request id.
ALTER TABLE trials DROP CONSTRAINT trials_experiment_id_external_id_key;
CREATE UNIQUE INDEX trial_external_id ON trials (experiment_id, external_id) WHERE external_id IS NOT NULL;

-- What deletions follow from row to row, and what is asked for when a container could not start.
CREATE INDEX allocations_by_task ON allocations (task_id);
CREATE INDEX tasks_by_experiment ON tasks (experiment_id);
CREATE INDEX checkpoints_by_task ON checkpoints (task_id);
CREATE INDEX model_versions_by_checkpoint ON model_versions (checkpoint_uuid);
CREATE INDEX trial_sources_by_checkpoint ON trial_sources (checkpoint_uuid);
CREATE INDEX experiments_by_context ON experiments (context_id);

-- What every tick looks for.
CREATE INDEX log_batches_by_time ON log_batches (stored_at);
