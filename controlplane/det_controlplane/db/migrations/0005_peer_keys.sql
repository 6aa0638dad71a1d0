-- What the containers of one allocation prove to each other: their tokens differ, this key is common to them.
ALTER TABLE allocations ADD COLUMN peer_key text NOT NULL
    DEFAULT replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
