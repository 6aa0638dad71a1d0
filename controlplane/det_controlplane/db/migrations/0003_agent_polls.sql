-- Polls of one agent process are numbered: only the newest may say that a container is no longer there.
-- `leaving`: the machine goes away (a spot notice, a shutdown); set by signals, cleared when the agent joins again.
ALTER TABLE agents ADD COLUMN poll_seq bigint NOT NULL DEFAULT 0, ADD COLUMN leaving boolean NOT NULL DEFAULT false;
