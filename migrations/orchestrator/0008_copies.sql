-- Copies of the last tasks: the attempt in the slot of a task whose last attempt is a copy; null without one.
alter table tasks add column live integer;
