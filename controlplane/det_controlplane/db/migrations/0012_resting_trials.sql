-- A run that was told that nothing is asked of its trial may end without closing it, whatever is asked while it ends.
ALTER TABLE trials ADD COLUMN rested_run integer;
