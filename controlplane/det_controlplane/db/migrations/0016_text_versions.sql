-- The version of an experiment's text is told by the experiment itself: a listing need not look at the texts to learn
-- that it knows them.
ALTER TABLE experiments ADD COLUMN text_version bigint;
UPDATE experiments e SET text_version = d.version FROM experiment_texts d WHERE d.experiment_id = e.id;
ALTER SEQUENCE experiment_text_versions OWNED BY experiments.text_version;
ALTER TABLE experiments
    ALTER COLUMN text_version SET DEFAULT nextval('experiment_text_versions'),
    ALTER COLUMN text_version SET NOT NULL;
ALTER TABLE experiment_texts ALTER COLUMN version DROP DEFAULT;

CREATE FUNCTION renew_text_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.text_version := nextval('experiment_text_versions');
    RETURN NEW;
END $$;
CREATE TRIGGER text_version
    BEFORE UPDATE OF name, description, labels, notes, archived, started_at, user_id, context_id, job_id, unmanaged,
        original_config, parent_id, external_id, config
    ON experiments FOR EACH ROW EXECUTE FUNCTION renew_text_version();

CREATE OR REPLACE FUNCTION write_experiment_texts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO experiment_texts (experiment_id, version, shown, config)
    VALUES (NEW.id, NEW.text_version, left(substr(json_build_object(
        'id', NEW.id, 'name', NEW.name, 'description', NEW.description, 'labels', to_json(NEW.labels), 'notes', NEW.notes,
        'archived', NEW.archived, 'startTime', to_char(NEW.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'userId', NEW.user_id, 'trialIds', '[]'::json,
        'modelDefinitionSize', coalesce((SELECT x.size FROM contexts x WHERE x.id = NEW.context_id), 0),
        'jobId', NEW.job_id, 'unmanaged', NEW.unmanaged, 'originalConfig', NEW.original_config,
        'forkedFrom', NEW.parent_id, 'externalExperimentId', NEW.external_id,
        'searcherType', NEW.config#>>'{searcher,name}', 'searcherMetric', coalesce(NEW.config#>>'{searcher,metric}', ''),
        'hyperparameters', NEW.config->'hyperparameters')::text, 2), -1), NEW.config::text)
    ON CONFLICT (experiment_id) DO UPDATE SET shown = excluded.shown, config = excluded.config, version = excluded.version;
    RETURN NULL;
END $$;
