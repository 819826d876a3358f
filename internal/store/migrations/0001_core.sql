-- {{key}}, {{blob}} and {{narrow}} are replaced for each database; see forks.go.

CREATE TABLE installation (
	name  text PRIMARY KEY,
	value text NOT NULL
) {{narrow}};

CREATE TABLE workspaces (
	id          {{key}},
	name        text NOT NULL UNIQUE,
	origin      text NOT NULL,
	archived_at bigint NOT NULL DEFAULT 0
);

-- A dataset id stands once per installation: two workspaces that sent to one
-- dataset would count each other's duplicates.
CREATE TABLE destinations (
	id          {{key}},
	ws          bigint NOT NULL REFERENCES workspaces (id),
	kind        text NOT NULL,
	name        text NOT NULL,
	origin      text NOT NULL,
	live        smallint NOT NULL,
	created_at  bigint NOT NULL,
	archived_at bigint NOT NULL DEFAULT 0,
	UNIQUE (kind, name)
);

CREATE TABLE api_keys (
	id         {{key}},
	ws         bigint NOT NULL REFERENCES workspaces (id),
	name       text NOT NULL,
	hash       {{blob}} NOT NULL UNIQUE, -- SHA-256 of the key
	hint       text NOT NULL,            -- its last four characters
	created_at bigint NOT NULL,
	revoked_at bigint NOT NULL DEFAULT 0
);

-- One row per destination: who may send to it, and how it is doing.
CREATE TABLE lanes (
	destination {{key}},
	owner       text NOT NULL DEFAULT '',
	epoch       bigint NOT NULL DEFAULT 0,
	lease_until bigint NOT NULL DEFAULT 0,
	due_at      bigint NOT NULL DEFAULT 0,
	failures    bigint NOT NULL DEFAULT 0,
	paused      text NOT NULL DEFAULT '',
	held        text NOT NULL DEFAULT '',
	held_since  bigint NOT NULL DEFAULT 0,
	probes      bigint NOT NULL DEFAULT 0,
	accepted_at bigint NOT NULL DEFAULT 0,
	status      bigint NOT NULL DEFAULT 0,
	code        bigint NOT NULL DEFAULT 0,
	subcode     bigint NOT NULL DEFAULT 0,
	trace_id    text NOT NULL DEFAULT '',
	message     text NOT NULL DEFAULT ''
);

-- Nothing personal stands here; a fingerprint is keyed and cannot be reversed.
CREATE TABLE events (
	id            {{key}},
	ws            bigint NOT NULL,
	source        text NOT NULL,
	name          text NOT NULL,
	event_id      text NOT NULL,
	time          bigint NOT NULL,
	action_source text NOT NULL,
	came          bigint NOT NULL,
	person        bigint NOT NULL
);

-- The deliveries of event n have the ids n+1, n+2 …; rows are never changed, only
-- the payload is cleared when its time has come.
CREATE TABLE deliveries (
	id          {{key}},
	destination bigint NOT NULL,
	kept        bigint NOT NULL,
	priority    smallint NOT NULL,
	deadline    bigint NOT NULL,
	test_code   text NOT NULL,
	agent       text NOT NULL,
	notes       text NOT NULL,
	payload     {{blob}}
);

-- What is still to be done. Priority 9 is parked: held by itself.
CREATE TABLE pending (
	destination   bigint NOT NULL,
	priority      smallint NOT NULL,
	id            bigint NOT NULL,
	ws            bigint NOT NULL,
	source        text NOT NULL,
	name          text NOT NULL,
	size          bigint NOT NULL,
	due_at        bigint NOT NULL,
	deadline      bigint NOT NULL,
	tries         bigint NOT NULL,
	unknown_since bigint NOT NULL,
	suspect_since bigint NOT NULL,
	held          text NOT NULL,
	test_code     text NOT NULL,
	agent         text NOT NULL,
	PRIMARY KEY (destination, priority, id)
) {{narrow}};

CREATE INDEX pending_deadline ON pending (destination, deadline);

-- Deliveries that still waited when their payload's time had come.
CREATE TABLE unpurged (
	id {{key}},
	ws bigint NOT NULL
);

-- What became of a delivery that is done with.
CREATE TABLE results (
	id     {{key}},
	state  text NOT NULL,
	reason text NOT NULL,
	batch  bigint NOT NULL,
	tries  bigint NOT NULL,
	at     bigint NOT NULL
);

-- One row per request, written before a byte leaves.
CREATE TABLE batches (
	id          {{key}},
	destination bigint NOT NULL,
	epoch       bigint NOT NULL,
	claimed_at  bigint NOT NULL,
	settled_at  bigint NOT NULL,
	outcome     text NOT NULL,
	events      bigint NOT NULL,
	status      bigint NOT NULL,
	code        bigint NOT NULL,
	subcode     bigint NOT NULL,
	trace_id    text NOT NULL,
	message     text NOT NULL,
	members     {{blob}} NOT NULL -- the deliveries' ids
);

CREATE INDEX batches_unsettled ON batches (destination) WHERE settled_at = 0;

-- Which events were here in the last seven days: a hash of destination, name and
-- event_id. A released key may be taken again: its event was skipped or refused.
CREATE TABLE seen (
	key      {{blob}} PRIMARY KEY,
	id       bigint NOT NULL,
	person   bigint NOT NULL,
	released smallint NOT NULL
) {{narrow}};

-- The book, by the hour of receipt. It changes in the transaction of the rows.
CREATE TABLE counters (
	ws          bigint NOT NULL,
	hour        bigint NOT NULL,
	destination bigint NOT NULL,
	source      text NOT NULL,
	name        text NOT NULL,
	state       text NOT NULL,
	reason      text NOT NULL,
	n           bigint NOT NULL,
	PRIMARY KEY (ws, hour, destination, source, name, state, reason)
) {{narrow}};

CREATE TABLE idempotency (
	ws     bigint NOT NULL,
	key    text NOT NULL,
	body   {{blob}} NOT NULL, -- SHA-256 of the request
	status bigint NOT NULL,
	answer {{blob}} NOT NULL,
	at     bigint NOT NULL,
	PRIMARY KEY (ws, key)
) {{narrow}};

-- One row per cause, not per event.
CREATE TABLE findings (
	ws       bigint NOT NULL,
	kind     text NOT NULL,
	subject  text NOT NULL,
	evidence text NOT NULL,
	since    bigint NOT NULL,
	last_at  bigint NOT NULL,
	fixed_at bigint NOT NULL,
	n        bigint NOT NULL,
	PRIMARY KEY (ws, kind, subject)
) {{narrow}};

INSERT INTO installation (name, value) VALUES ('starts', '0'), ('seen_forgotten_to', '0'), ('last_ping', ''), ('settings_version', '1');
