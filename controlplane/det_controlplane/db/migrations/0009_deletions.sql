-- Deleting a job or a context looks for what still refers to it.
DROP INDEX allocations_by_job;
CREATE INDEX allocations_by_job ON allocations (job_id);
CREATE INDEX tasks_by_context ON tasks (context_id) WHERE context_id IS NOT NULL;
