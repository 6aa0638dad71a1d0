-- More of what is shown of an experiment changes seldom or never: it is written with the rest.
CREATE OR REPLACE FUNCTION write_experiment_texts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO experiment_texts (experiment_id, shown, config)
    VALUES (NEW.id, left(substr(json_build_object(
        'id', NEW.id, 'name', NEW.name, 'description', NEW.description, 'labels', to_json(NEW.labels), 'notes', NEW.notes,
        'archived', NEW.archived, 'startTime', to_char(NEW.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'userId', NEW.user_id, 'trialIds', '[]'::json,
        'modelDefinitionSize', coalesce((SELECT x.size FROM contexts x WHERE x.id = NEW.context_id), 0),
        'jobId', NEW.job_id, 'unmanaged', NEW.unmanaged, 'originalConfig', NEW.original_config,
        'forkedFrom', NEW.parent_id, 'externalExperimentId', NEW.external_id,
        'searcherType', NEW.config#>>'{searcher,name}', 'searcherMetric', coalesce(NEW.config#>>'{searcher,metric}', ''),
        'hyperparameters', NEW.config->'hyperparameters')::text, 2), -1), NEW.config::text)
    ON CONFLICT (experiment_id) DO UPDATE SET shown = excluded.shown, config = excluded.config;
    RETURN NULL;
END $$;
DROP TRIGGER experiment_texts ON experiments;
CREATE TRIGGER experiment_texts
    AFTER INSERT OR UPDATE OF name, description, labels, notes, archived, started_at, user_id, context_id, job_id, unmanaged,
        original_config, parent_id, external_id, config
    ON experiments FOR EACH ROW EXECUTE FUNCTION write_experiment_texts();

UPDATE experiments SET name = name;
