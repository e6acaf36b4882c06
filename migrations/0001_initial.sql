-- What is on record, and what readers may look at with any SQLite client.
-- Times are milliseconds since the epoch. Numbers past 2^63 read as negative here.

-- One row per cycle, the newest ones only: what was published, and where numbering stood.
create table cycles (
    cycle                integer primary key,
    at_ms                integer not null,
    publication_sequence integer,
    next_share           integer not null,
    schedule             text    not null
) strict;

-- Every node ever seen, as the last cycle that knew it left it.
create table nodes (
    name          text    primary key,
    pool          text    not null,
    memory_mb     integer not null,
    order_qshares integer not null,
    used_qshares  integer not null,
    states        text    not null, -- words, separated by blanks; empty: it gets work
    missed        integer not null, -- heartbeats in a row
    varied_off    text              -- the reason; null: it is not
) strict, without rowid;

-- Every share there is, those that are leaving included. Not bound to `nodes`: after a restart the
-- orchestrator may show a share on a node that has yet to report.
create table shares (
    id      integer primary key,
    job     integer not null,
    node    text    not null,
    qshares integer not null,
    state   text    not null check (state in ('held', 'leaving'))
) strict;

-- What was taken from whom, for whom and under which rule. Only ever added to, and cut at the old
-- end.
create table preemptions (
    id          integer primary key,
    cycle       integer not null,
    at_ms       integer not null,
    share       integer not null,
    job         integer not null,
    node        text    not null,
    beneficiary integer,            -- null: its job may not hold it any more
    rule        text    not null,
    loss_ms     integer not null
) strict;

-- What administrators did. Only ever added to, and cut at the old end.
create table admin_acts (
    id     integer primary key,
    cycle  integer not null,
    at_ms  integer not null,
    action text    not null,
    nodes  text    not null,        -- names, separated by commas
    reason text
) strict;
