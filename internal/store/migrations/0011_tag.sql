-- What the tag saw the Pixel report in browsers, kept for the days in which Meta pairs.
-- Nothing personal stands here; fingerprints are keyed and cannot be reversed.
CREATE TABLE sightings (
	ws       bigint NOT NULL,
	uid      {{blob}} NOT NULL, -- 16 bytes, from the tag's own number: a report that is sent again is one
	id       bigint NOT NULL,   -- time-led, of the receipt
	source   text NOT NULL,
	dataset  text NOT NULL,     -- the Pixel's id; '' is not known
	name     text NOT NULL,
	event_id text NOT NULL,     -- as the Pixel got it; '' is none
	at       bigint NOT NULL,
	page     text NOT NULL,     -- path without query
	fbp      bigint NOT NULL,
	external bigint NOT NULL,   -- external_id
	visitor  bigint NOT NULL,   -- address and agent
	own      smallint NOT NULL, -- the tag itself called the Pixel
	blocked  smallint NOT NULL, -- the Pixel's script never ran: an ad blocker
	PRIMARY KEY (ws, id) -- they are read and forgotten by time
) {{narrow}};

CREATE UNIQUE INDEX sightings_once ON sightings (ws, uid);

-- What was known of the person's decision: granted, denied or '', and who said so
-- (granted:tcf).
ALTER TABLE events ADD COLUMN consent text NOT NULL DEFAULT '';
