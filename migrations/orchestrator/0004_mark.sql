-- An older copy of this file is noticed by the file beside it, which says epoch and commits.
alter table meta add column commits integer not null default 0;
-- Whether this is an older copy whose tasks on nodes were not adopted yet.
alter table meta add column set_back integer not null default 0;
