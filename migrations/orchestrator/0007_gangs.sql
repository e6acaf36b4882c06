-- Gangs: campaigns whose ranks begin together and end together.
-- The state that all ranks get once none of their attempts is left; null while the gang is not to end.
alter table campaigns add column verdict text;
-- The secret with which rank 0 may start programs at the other ranks; null without a gang.
alter table campaigns add column gang_key text;
