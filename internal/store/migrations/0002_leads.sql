-- Lead sources, each with the secret part of its address.
CREATE TABLE sources (
	id          {{key}},
	ws          bigint NOT NULL REFERENCES workspaces (id),
	kind        text NOT NULL,
	name        text NOT NULL,
	origin      text NOT NULL,
	webhook     text NOT NULL UNIQUE,
	created_at  bigint NOT NULL,
	archived_at bigint NOT NULL DEFAULT 0,
	swept_to    bigint NOT NULL DEFAULT 0,
	UNIQUE (ws, name)
);

-- Keys of the workspaces, wrapped by the master key.
CREATE TABLE workspace_keys (
	ws         bigint NOT NULL,
	use_for    text NOT NULL,
	generation bigint NOT NULL,
	wrapped    {{blob}} NOT NULL,
	PRIMARY KEY (ws, use_for, generation)
) {{narrow}};

-- What is open of a lead. Who it is stands in lead_secrets only.
CREATE TABLE leads (
	id            {{key}},
	ws            bigint NOT NULL,
	source        text NOT NULL,
	kind          text NOT NULL,
	platform      text NOT NULL,
	lead_id       text NOT NULL,
	form_id       text NOT NULL,
	form_name     text NOT NULL,
	ad_id         text NOT NULL,
	ad_name       text NOT NULL,
	adset_id      text NOT NULL,
	adset_name    text NOT NULL,
	campaign_id   text NOT NULL,
	campaign_name text NOT NULL,
	channel       text NOT NULL,
	organic       smallint NOT NULL,
	consent       smallint NOT NULL,
	history       smallint NOT NULL,
	test          smallint NOT NULL,
	event_id      text NOT NULL,
	created_at    bigint NOT NULL,
	cleared_at    bigint NOT NULL DEFAULT 0
);

-- Contact, answers, click ids and visit of a lead, sealed under a key of its own,
-- which is wrapped by the workspace's. Without the wrapped key nobody can read it.
CREATE TABLE lead_secrets (
	lead    {{key}},
	wrapped {{blob}},
	sealed  {{blob}}
);

-- Every way on which a lead came: the first one, and those within the merge window.
CREATE TABLE touches (
	lead       bigint NOT NULL,
	at         bigint NOT NULL,
	source     text NOT NULL,
	kind       text NOT NULL,
	platform   text NOT NULL,
	lead_id    text NOT NULL,
	campaign   text NOT NULL,
	created_at bigint NOT NULL,
	PRIMARY KEY (lead, at, source)
) {{narrow}};

-- Keyed hashes of what names exactly one lead: a platform's lead id, a submission.
CREATE TABLE lead_ids (
	ws   bigint NOT NULL,
	hash {{blob}} NOT NULL,
	lead bigint NOT NULL,
	PRIMARY KEY (ws, hash)
) {{narrow}};

-- Keyed hashes of what several leads may share: an e-mail, a phone.
CREATE TABLE lead_people (
	ws   bigint NOT NULL,
	hash {{blob}} NOT NULL,
	lead bigint NOT NULL,
	PRIMARY KEY (ws, hash, lead)
) {{narrow}};

-- What a CRM calls the record that holds a lead.
CREATE TABLE crm_records (
	destination bigint NOT NULL,
	lead        bigint NOT NULL,
	record      text NOT NULL,
	rank        smallint NOT NULL,
	PRIMARY KEY (destination, lead, record)
) {{narrow}};

CREATE INDEX crm_records_record ON crm_records (destination, record);

-- What left for a CRM, sealed under the lead's key.
CREATE TABLE lead_copies (
	id     {{key}},
	sealed {{blob}} NOT NULL
);

-- Notices of leads that must still be read, and withdrawals to be done.
CREATE TABLE inbox (
	id      {{key}},
	ws      bigint NOT NULL,
	source  bigint NOT NULL,
	key     text NOT NULL,
	deleted smallint NOT NULL,
	body    {{blob}} NOT NULL,
	at      bigint NOT NULL,
	due_at  bigint NOT NULL,
	tries   bigint NOT NULL,
	state   text NOT NULL, -- waiting, held, done, failed
	reason  text NOT NULL,
	UNIQUE (source, key, deleted)
);

CREATE INDEX inbox_due ON inbox (due_at) WHERE state = 'waiting';

-- Options that a CRM or source has renewed, sealed under the workspace's key.
CREATE TABLE credentials (
	ws      bigint NOT NULL,
	owner   text NOT NULL,
	name    text NOT NULL,
	wrapped {{blob}} NOT NULL,
	sealed  {{blob}} NOT NULL,
	PRIMARY KEY (ws, owner, name)
) {{narrow}};
