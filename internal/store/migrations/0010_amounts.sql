-- What is usual for an amount is looked up at each change that has one.
CREATE INDEX stage_changes_amount ON stage_changes (ws, currency, id) WHERE amount <> '';
