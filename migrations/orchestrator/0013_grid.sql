-- The grid over time (src/orchestrator/store/grid.rs). Times are in milliseconds since the epoch.

-- A cluster at a pass of the router, in resources. The router's own cluster is `local`.
create table gridstatus (
    at_ms     integer not null,
    cluster   text    not null,
    silent    integer not null,
    nodes     integer not null,
    capacity  integer not null,
    free      integer not null,
    running   integer not null, -- forwarded tasks
    waiting   integer not null,
    sent      integer not null, -- tasks sent in this pass
    rungs     text    not null, -- nodes by enforcement of limits, as JSON
    primary key (at_ms, cluster)
) strict, without rowid;

-- A campaign on a cluster, one row a minute: the state of the predictor after the last pass of that minute, the
-- figures of the ended tasks, and the forecast. The last row is what a restart goes on with. The cluster is empty for
-- the whole campaign.
create table forecasts (
    campaign      integer not null,
    cluster       text    not null,
    at_ms         integer not null, -- the begin of the minute
    ratio         integer not null, -- millionths
    free          integer not null,
    sent          integer not null,
    integral      integer not null,
    tap           integer not null,
    closed_for_ms integer,          -- how long the tap was closed; null: it is open
    ended         integer not null, -- tasks of the last hour
    mean_ms       integer not null,
    deviation_ms  integer not null,
    throughput    integer not null, -- millionths of a task a second
    basis         text    not null,
    left_ms       integer,          -- until the end; null: no forecast
    primary key (campaign, cluster, at_ms)
) strict, without rowid;

create table affinity (
    campaign integer not null,
    task     integer not null,
    cluster  text    not null,
    affinity integer not null,
    primary key (campaign, task, cluster)
) strict, without rowid;
