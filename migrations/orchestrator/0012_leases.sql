-- Leases of campaigns that were forwarded here, and of batches that were forwarded to other clusters: a number is one or
-- the other. The end is in milliseconds since the boot of this machine, and counts in that boot only; 0 for a batch.
create table leases (
    number   integer primary key,
    lease_ms integer not null,
    until_ms integer not null,
    boot     text    not null
) strict;
-- The other clusters, with what is known of them when they are silent.
create table clusters (
    name          text    primary key,
    slot_lease_ms integer not null default 0, -- the longest lease of its slots so far; 0: not known
    out_ms        integer,                    -- when an operator took it out; null: it is in
    out_by        text,
    out_why       text
) strict;
