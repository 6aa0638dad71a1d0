-- When old logs were last deleted: work that follows the work of others, so that an idle cluster does none.
ALTER TABLE cluster ADD COLUMN cleaned_at timestamptz;
