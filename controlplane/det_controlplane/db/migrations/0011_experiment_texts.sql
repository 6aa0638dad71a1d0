-- What is shown of an experiment and does not change while it runs, written as JSON once instead of at every look.
CREATE TABLE experiment_texts (
    experiment_id  integer PRIMARY KEY REFERENCES experiments ON DELETE CASCADE,
    shown          text NOT NULL,  -- fields as the public API has them, without braces around them
    config         text NOT NULL
) WITH (toast_tuple_target = 8160);  -- rows of usual length stay as they are, instead of being compressed from 2 kB on

CREATE FUNCTION write_experiment_texts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO experiment_texts (experiment_id, shown, config)
    VALUES (NEW.id, left(substr(json_build_object(
        'name', NEW.name, 'description', NEW.description, 'labels', to_json(NEW.labels), 'notes', NEW.notes,
        'jobId', NEW.job_id, 'unmanaged', NEW.unmanaged, 'originalConfig', NEW.original_config,
        'forkedFrom', NEW.parent_id, 'externalExperimentId', NEW.external_id,
        'searcherType', NEW.config#>>'{searcher,name}', 'searcherMetric', coalesce(NEW.config#>>'{searcher,metric}', ''),
        'hyperparameters', NEW.config->'hyperparameters')::text, 2), -1), NEW.config::text)
    ON CONFLICT (experiment_id) DO UPDATE SET shown = excluded.shown, config = excluded.config;
    RETURN NULL;
END $$;
CREATE TRIGGER experiment_texts AFTER INSERT OR UPDATE OF name, description, labels, notes, job_id, unmanaged, original_config, parent_id, external_id, config
    ON experiments FOR EACH ROW EXECUTE FUNCTION write_experiment_texts();

UPDATE experiments SET name = name;
