-- The database of the orchestrator: campaigns, their tasks, and the slots that run them.
-- What is here was committed before anyone was told of it (src/orchestrator/store/mod.rs).

-- One row: what the whole file is about.
create table meta (
    one      integer primary key check (one = 1),
    identity text    not null, -- part of the names of folders, units and cgroups on nodes
    epoch    integer not null, -- grows with each opening; the file beside it has it too
    next     integer not null, -- the next number of a campaign or of work
    sequence integer not null  -- the last publication
) strict;

-- Specifications, as JSON; campaigns with equal ones share a row.
create table specs (
    number integer primary key,
    sha256 blob    not null unique,
    text   text    not null,
    stdin  blob             -- the standard input that goes with it
) strict;

create table campaigns (
    id           integer primary key,
    owner        text    not null,
    uid          integer,
    spec         integer not null references specs (number),
    name         text    not null,
    total        integer not null,
    submitted_ms integer not null,
    state        text    not null,
    ending       text,
    taken        integer not null, -- positions of the range that were passed
    positions    integer not null, -- positions that may be passed
    done         integer not null,
    failed       integer not null,
    cancelled    integer not null,
    dropped      integer not null,
    init_fails   integer not null,
    has_begun    integer not null,
    ended_ms     integer not null,
    ended        integer not null,
    prepared_ms  integer not null,
    rss_mb       integer not null
) strict;
create index campaigns_by_state on campaigns (state);

-- Parameters of tasks, 4,096 positions in a row: lz4 of a JSON list. Ranges have none.
create table params (
    campaign integer not null references campaigns (id),
    first    integer not null,
    packed   blob    not null,
    primary key (campaign, first)
) strict, without rowid;

-- The work of each memory step, by the number that the resource manager knows.
create table works (
    campaign  integer not null references campaigns (id),
    step      integer not null,
    memory_mb integer not null,
    number    integer,
    primary key (campaign, step)
) strict, without rowid;

-- Tasks that were touched. The others are implied by their campaign.
create table tasks (
    campaign  integer not null references campaigns (id),
    task      integer not null,
    state     text    not null,
    attempt   integer not null,
    tries     integer not null,
    losses    integer not null,
    resubmits integer not null,
    priority  integer not null,
    step      integer not null,
    share     integer,
    cancel    integer not null,
    reason    text,
    primary key (campaign, task)
) strict, without rowid;
create index tasks_by_state on tasks (campaign, state, task);

create table attempts (
    campaign    integer not null,
    task        integer not null,
    attempt     integer not null,
    share       integer not null,
    node        text    not null,
    assigned_ms integer not null,
    ended_ms    integer,
    reason      text,
    result      text,             -- how it ended, as JSON
    primary key (campaign, task, attempt)
) strict, without rowid;
create index attempts_open on attempts (campaign) where result is null;

-- Slots that are not forgotten.
create table slots (
    share    integer primary key,
    node     text    not null,
    campaign integer not null,
    facts    text    not null   -- the rest, as JSON
) strict;

-- What people should know, as sentences.
create table notes (
    id       integer primary key,
    at_ms    integer not null,
    campaign integer not null,
    task     integer,
    node     text,
    code     text    not null,
    text     text    not null
) strict;
create index notes_by_campaign on notes (campaign, id);

-- Submissions that said a key, so that a repeated one is answered and not taken twice.
create table submissions (
    owner    text    not null,
    key      text    not null,
    campaign integer not null,
    primary key (owner, key)
) strict, without rowid;

-- Who did what: each row has a sum over itself and the sum before it (src/orchestrator/store/acts.rs).
create table acts (
    id     integer primary key,
    at_ms  integer not null,
    who    text    not null,
    origin text    not null,
    act    text    not null,
    detail text    not null,
    sum    blob    not null
) strict;
create trigger acts_are_not_changed before update on acts
begin select raise(abort, 'acts are only added to'); end;
create trigger acts_are_not_cut before delete on acts
begin select raise(abort, 'acts are only added to'); end;
