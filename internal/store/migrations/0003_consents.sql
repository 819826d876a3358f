-- What people decided about their data, newest word only: keyed hashes of what their
-- events carry. Nothing personal stands here.
CREATE TABLE consents (
	ws      bigint NOT NULL,
	hash    {{blob}} NOT NULL,
	granted smallint NOT NULL,
	at      bigint NOT NULL,
	PRIMARY KEY (ws, hash)
) {{narrow}};

INSERT INTO installation (name, value) VALUES ('consents_version', '0');
