-- Configurations are a little longer than what PostgreSQL begins to compress, and read again and again: rows of usual
-- length stay as they are.
ALTER TABLE experiments SET (toast_tuple_target = 8160);
