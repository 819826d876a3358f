-- Every move of every lead, for ever. Nothing personal stands here.
CREATE TABLE stage_changes (
	id         {{key}},
	ws         bigint NOT NULL,
	source     text NOT NULL,     -- the connection, key or file that told of it
	hash       {{blob}} NOT NULL, -- keyed hash of what recognises a repeat
	lead       bigint NOT NULL,
	record     text NOT NULL,
	deal       text NOT NULL,
	pipeline   text NOT NULL,
	stage      text NOT NULL,
	field      text NOT NULL,
	from_stage text NOT NULL,
	moved_by   text NOT NULL,
	amount     text NOT NULL,     -- decimal
	currency   text NOT NULL,
	at         bigint NOT NULL,   -- by the CRM's clock
	effect     text NOT NULL,
	UNIQUE (ws, source, hash)
);

CREATE INDEX stage_changes_lead ON stage_changes (lead, at);

CREATE INDEX stage_changes_source ON stage_changes (ws, source, at);

-- Once per lead: which events of a lead were made, with the event, or 0 where the
-- moment lay before the connection. part is the deal where a rule counts again.
CREATE TABLE fired (
	lead   bigint NOT NULL,
	name   text NOT NULL,
	part   text NOT NULL,
	event  bigint NOT NULL,
	change bigint NOT NULL, -- 0: the receipt of the lead
	at     bigint NOT NULL,
	PRIMARY KEY (lead, name, part)
) {{narrow}};

CREATE INDEX fired_event ON fired (event) WHERE event <> 0;

-- The stages that a CRM has or had, as its list says or as moves went there.
CREATE TABLE crm_stages (
	ws             bigint NOT NULL,
	source         text NOT NULL,
	field          text NOT NULL,
	pipeline       text NOT NULL,
	stage          text NOT NULL,
	pipeline_label text NOT NULL,
	label          text NOT NULL,
	labels         text NOT NULL, -- JSON: those before
	position       bigint NOT NULL,
	meaning        text NOT NULL,
	first_at       bigint NOT NULL,
	last_at        bigint NOT NULL, -- of the last move
	listed_at      bigint NOT NULL, -- 0: never in the CRM's list
	gone_at        bigint NOT NULL,
	n              bigint NOT NULL, -- moves
	PRIMARY KEY (ws, source, field, pipeline, stage)
) {{narrow}};

-- Deliveries that wait until another event of their lead is sent.
CREATE TABLE sequences (
	id          {{key}},
	destination bigint NOT NULL,
	lead        bigint NOT NULL,
	after       text NOT NULL
);

ALTER TABLE leads ADD COLUMN merged_into bigint NOT NULL DEFAULT 0;

CREATE INDEX leads_created ON leads (ws, created_at);

-- Up to when a CRM's moves were read.
ALTER TABLE destinations ADD COLUMN polled_to bigint NOT NULL DEFAULT 0;
