-- What a change has fired, to be taken back.
CREATE INDEX fired_change ON fired (change) WHERE change <> 0;

-- The daily reminder of leads that nobody marked: one row per CRM, of the last day. It is
-- sent by who sets the day, so that two nodes never both do.
CREATE TABLE reminders (
	destination {{key}},
	day         text NOT NULL,   -- in the workspace's time zone
	state       text NOT NULL,   -- sending, failed, done
	due_at      bigint NOT NULL, -- when a failed one is tried again
	tries       bigint NOT NULL
);
