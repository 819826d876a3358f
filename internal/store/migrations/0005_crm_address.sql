-- The secret part of a CRM's own address, on which it tells of stage changes. Those of
-- sources stand in their table; none is in both.
ALTER TABLE destinations ADD COLUMN webhook text NOT NULL DEFAULT '';

CREATE UNIQUE INDEX destinations_webhook ON destinations (webhook) WHERE webhook <> '';
