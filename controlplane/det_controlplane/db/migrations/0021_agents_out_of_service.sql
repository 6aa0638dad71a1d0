-- Why the agent itself takes no work, empty while it does.
ALTER TABLE agents ADD COLUMN out_of_service text NOT NULL DEFAULT '';
