-- What was paid lately for each content that websites sell, by which the guard knows what
-- is usual. Contents are keyed hashes with workspace, event and currency in them.
CREATE TABLE usual (
	content {{key}},
	ws      bigint NOT NULL,
	day     bigint NOT NULL,   -- of the last purchase, since 1970: it changes seldom, and so does the index
	paid    {{blob}} NOT NULL  -- at most 15, of 12 bytes each
);

CREATE INDEX usual_day ON usual (ws, day);

-- What the guard holds is usual only once a person has released it.
CREATE TABLE usual_held (
	event   {{key}},
	ws      bigint NOT NULL,
	content bigint NOT NULL,
	paid    {{blob}} NOT NULL
);
