-- A version of an experiment stands for all that is shown of it, but for its state and its duration, which change by
-- themselves. A listing that knows the text of a version asks for nothing else: whatever adds to what is shown renews
-- the version in its own transaction.
DROP TRIGGER text_version ON experiments;
CREATE TRIGGER text_version BEFORE UPDATE ON experiments FOR EACH ROW EXECUTE FUNCTION renew_text_version();

-- Any update renews the version. An experiment that this transaction has already written has a new one that nobody saw.
CREATE FUNCTION renew_experiment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE experiments SET text_version = text_version
    WHERE id = NEW.experiment_id AND xmin <> pg_current_xact_id()::xid;
    RETURN NULL;
END $$;
CREATE TRIGGER renew_experiment AFTER INSERT ON trials FOR EACH ROW EXECUTE FUNCTION renew_experiment();
CREATE TRIGGER renew_experiment AFTER INSERT OR UPDATE OF state, size, experiment_id ON checkpoints
    FOR EACH ROW WHEN (NEW.experiment_id IS NOT NULL) EXECUTE FUNCTION renew_experiment();

CREATE FUNCTION renew_experiment_of_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE experiments SET text_version = text_version WHERE job_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER renew_experiment AFTER UPDATE OF pool ON jobs
    FOR EACH ROW WHEN (NEW.pool <> OLD.pool) EXECUTE FUNCTION renew_experiment_of_job();

-- Names of users, projects and workspaces are part of many experiments and hardly ever change: one version for them all.
ALTER TABLE cluster ADD COLUMN names_version bigint NOT NULL DEFAULT 0;
CREATE FUNCTION renew_names() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE cluster SET names_version = names_version + 1;
    RETURN NULL;
END $$;
CREATE TRIGGER renew_names AFTER UPDATE OF username, display_name ON users
    FOR EACH ROW WHEN ((NEW.username, NEW.display_name) IS DISTINCT FROM (OLD.username, OLD.display_name))
    EXECUTE FUNCTION renew_names();
CREATE TRIGGER renew_names AFTER UPDATE OF name, archived, user_id, workspace_id ON projects
    FOR EACH ROW WHEN ((NEW.name, NEW.archived, NEW.user_id, NEW.workspace_id)
        IS DISTINCT FROM (OLD.name, OLD.archived, OLD.user_id, OLD.workspace_id))
    EXECUTE FUNCTION renew_names();
CREATE TRIGGER renew_names AFTER UPDATE OF name, archived ON workspaces
    FOR EACH ROW WHEN ((NEW.name, NEW.archived) IS DISTINCT FROM (OLD.name, OLD.archived))
    EXECUTE FUNCTION renew_names();
