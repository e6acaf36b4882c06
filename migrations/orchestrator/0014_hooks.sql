-- Prologues and epilogues of a whole cluster, each a campaign of one task. 0012 belongs to clusters.
-- The campaign that this one prepares or ends; null for all others.
alter table campaigns add column hook_of integer;
-- The epilogue without which the campaign does not end; null without one, and once it is done.
alter table campaigns add column epilogue integer;
