-- Child campaigns of batches that other clusters have taken: where the output of their tasks is.
create table children (
    batch    integer primary key,
    campaign integer not null,
    child    integer not null
) strict;
create index children_of on children (campaign);
-- Reason why a cluster got no task in a pass, beside silence and an operator's act: the sentence of its open event, or of its
-- stress. And the stress itself, in thousandths.
alter table gridstatus add column held text not null default '';
alter table gridstatus add column stress integer not null default 0;
-- When the affinities began anew, in milliseconds since the epoch; 0: never.
alter table meta add column affinity_ms integer not null default 0;
-- Time in ended attempts, in milliseconds, and how many of them were interrupted: the mean time between interruptions.
alter table meta add column attempts_ms integer not null default 0;
alter table meta add column interruptions integer not null default 0;
