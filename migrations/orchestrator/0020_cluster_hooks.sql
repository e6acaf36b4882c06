-- Prologues and epilogues of a campaign on other clusters (src/orchestrator/book/away.rs).
-- The other cluster for which a prologue or epilogue is; null: for the orchestrator's own.
alter table campaigns add column hook_cluster text;
-- Other clusters that its epilogue has to visit, as JSON: their prologue is done, or tasks were sent there.
alter table campaigns add column prepared text;
-- Epilogues on other clusters that are not done, as JSON; the campaign does not end without them.
alter table campaigns add column epilogues text;
