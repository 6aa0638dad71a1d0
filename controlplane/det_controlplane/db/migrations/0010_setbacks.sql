-- A run that infrastructure ended before it was ready is tried again later and later.
ALTER TABLE allocations
    ADD COLUMN setback boolean NOT NULL DEFAULT false,  -- ended by infrastructure before it was ready
    ADD COLUMN not_before timestamptz;                  -- queued, and not looked at before that time
CREATE INDEX allocations_not_before ON allocations (not_before) WHERE not_before IS NOT NULL AND state = 'QUEUED';
