-- Peers may gather again and again: as many requests as there are peers, in the order they came, make a round.
ALTER TABLE gathers ADD COLUMN round integer NOT NULL DEFAULT 0;
