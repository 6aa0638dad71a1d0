-- A pass over a pool answers the marks that it saw. It may die at any point: what it did not answer stays marked.
ALTER TABLE pools DROP COLUMN dirty;
ALTER TABLE pools ADD COLUMN marked bigint NOT NULL DEFAULT 1, ADD COLUMN answered bigint NOT NULL DEFAULT 0;
ALTER TABLE pools ADD COLUMN dirty boolean NOT NULL GENERATED ALWAYS AS (marked > answered) STORED;
