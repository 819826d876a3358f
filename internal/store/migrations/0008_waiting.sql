-- Whoever is done with looks for what waits for it by the lead, and first whether
-- anything waits at its destination at all.
CREATE INDEX sequences_lead ON sequences (lead, after);

CREATE INDEX sequences_destination ON sequences (destination);
