-- The journal, and a schedule's text once however many cycles it holds for.
--
-- A body with its form and a sum over both: `=` and text, or `~` and packed text (src/journal/seal.rs).
-- Form 0 is text without a sum, of before.

-- Every schedule that was published, under the cycle in which it came about; the newest ones only.
create table schedules (
    cycle integer primary key,
    form  integer not null,
    body  blob    not null,
    sum   blob    not null
) strict;
insert into schedules (cycle, form, body, sum) select cycle, 0, cast(schedule as blob), x'' from cycles;
alter table cycles drop column schedule;

-- Which of them held after the cycle; what the cycle saw and decided, in 32 bytes (null: it was not
-- planned); the last event of the feed that it knows.
alter table cycles add column schedule_cycle integer;
update cycles set schedule_cycle = cycle;
alter table cycles add column digest blob;
alter table cycles add column last_event integer not null default 0;

-- What happened before a cycle, in the order in which the scheduler took it.
create table batches (
    id    integer primary key,
    cycle integer not null,
    form  integer not null,
    body  blob    not null,
    sum   blob    not null
) strict;
create index batches_by_cycle on batches (cycle);

-- All that the scheduler knew after a cycle.
create table books (
    cycle        integer primary key,
    is_beginning integer not null, -- nothing before it leads to it
    is_lasting   integer not null, -- else it goes when the next one comes
    form         integer not null,
    body         blob    not null,
    sum          blob    not null
) strict;

-- What others may follow, in order and without a gap, cut at the old end.
create table feed (
    seq   integer primary key,
    cycle integer not null,
    at_ms integer not null,
    kind  text    not null,
    body  text    not null         -- JSON
) strict;
create index feed_by_cycle on feed (cycle);
