-- What every report of a validation needs of its experiment's configuration, without unpacking that each time.
ALTER TABLE experiments
    ADD COLUMN metric_name text NOT NULL GENERATED ALWAYS AS (coalesce(config #>> '{searcher,metric}', '')) STORED,
    ADD COLUMN smaller_is_better boolean NOT NULL
        GENERATED ALWAYS AS (coalesce((config #>> '{searcher,smaller_is_better}')::boolean, true)) STORED,
    ADD COLUMN max_restarts integer NOT NULL GENERATED ALWAYS AS (coalesce((config ->> 'max_restarts')::integer, 5)) STORED,
    ADD COLUMN slots_per_trial integer NOT NULL
        GENERATED ALWAYS AS (coalesce((config #>> '{resources,slots_per_trial}')::integer, 1)) STORED;
