-- Every tick asks for the unmanaged trial that has been silent for longest.
CREATE INDEX trials_by_heartbeat ON trials (heartbeat_at) WHERE heartbeat_at IS NOT NULL AND ended_at IS NULL;
