-- Who was merged into a lead: a decision about consent is one for all of them.
CREATE INDEX leads_merged ON leads (merged_into) WHERE merged_into <> 0;
