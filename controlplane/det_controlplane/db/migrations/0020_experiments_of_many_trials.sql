-- Searches begin with thousands of trials: one look at their experiment for all of them.
DROP TRIGGER renew_experiment ON trials;
CREATE FUNCTION renew_experiments_of_trials() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE experiments e SET text_version = e.text_version
    FROM (SELECT DISTINCT experiment_id AS id FROM added) a
    WHERE e.id = a.id AND e.xmin <> pg_current_xact_id()::xid;
    RETURN NULL;
END $$;
CREATE TRIGGER renew_experiment AFTER INSERT ON trials REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION renew_experiments_of_trials();
