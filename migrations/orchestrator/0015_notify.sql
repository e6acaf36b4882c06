-- The last event that the notify hook of the site was told of; null before the first.
alter table meta add column notified integer;

-- Events of nodes and clusters that an operator filed, or that faults of several campaigns caused. While one of
-- the class node or cluster is open, no task begins there.
create table filed (
    id        integer primary key,
    class     text    not null,
    name      text    not null, -- of the node or cluster
    code      text    not null,
    who       text    not null,
    opened_ms integer not null,
    closed_ms integer,
    parent    integer,          -- the event that closes this one with itself
    text      text    not null
) strict;
create index filed_open on filed (id) where closed_ms is null;
-- The event of the node that closes the fault of a campaign there with itself.
alter table events add column parent integer;
