-- Who has read the text of an experiment knows by its version whether it is still the same. The experiment itself tells
-- it: a listing need not look at the texts to learn that it knows them.
CREATE SEQUENCE experiment_text_versions;
ALTER TABLE experiments ADD COLUMN text_version bigint NOT NULL DEFAULT nextval('experiment_text_versions');
ALTER SEQUENCE experiment_text_versions OWNED BY experiments.text_version;

CREATE FUNCTION renew_text_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.text_version := nextval('experiment_text_versions');
    RETURN NEW;
END $$;
-- The columns are those of the trigger that writes the text.
CREATE TRIGGER text_version
    BEFORE UPDATE OF name, description, labels, notes, archived, started_at, user_id, context_id, job_id, unmanaged,
        original_config, parent_id, external_id, config
    ON experiments FOR EACH ROW EXECUTE FUNCTION renew_text_version();
