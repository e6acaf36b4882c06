-- Which daemon owns the record, and for the how many-th time it was taken over: every transaction checks it,
-- so that a daemon from which it was taken writes nothing more.
create table owner (
    id integer primary key check (id = 1),
    instance text not null,
    epoch integer not null
) strict;
insert into owner (id, instance, epoch) values (1, '', 0);

-- The orchestrator whose publications count, where one said its name.
create table publisher (
    id integer primary key check (id = 1),
    name text not null,
    epoch integer not null
) strict;
