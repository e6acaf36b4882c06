-- Nodes on which the tasks of a campaign go wrong: open until a retest goes well.
create table events (
    campaign  integer not null references campaigns (id),
    node      text    not null,
    opened_ms integer not null,
    code      text    not null,
    closed_ms integer,
    text      text    not null,
    primary key (campaign, node, opened_ms)
) strict, without rowid;
create index events_open on events (campaign) where closed_ms is null;
-- Whether the result of a task is from a node that was a sink. Such a task can be resubmitted by that.
alter table tasks add column suspicious integer not null default 0;
