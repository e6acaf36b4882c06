-- What is old goes (src/orchestrator/store/retention.rs).

-- When the campaign became final. Absent: it is not.
alter table campaigns add column final_ms integer;
-- When its tasks and attempts were folded into its summary. Absent: they are there.
alter table campaigns add column folded_ms integer;
update campaigns
set final_ms = coalesce(
    (select max(ended_ms) from attempts where campaign = campaigns.id and ended_ms is not null), submitted_ms)
where state in ('done', 'failed', 'cancelled');
create index campaigns_to_fold on campaigns (final_ms) where final_ms is not null and folded_ms is null;
create index campaigns_folded on campaigns (final_ms) where folded_ms is not null;
-- What refers to campaigns and specifications is looked for when one of them goes.
create index campaigns_by_spec on campaigns (spec);
create index submissions_by_campaign on submissions (campaign);

-- What is left of the tasks of a campaign: its figures, as the API tells them.
create table summaries (
    campaign integer primary key references campaigns (id),
    figures  text    not null,
    emptied  integer not null -- whether all rows of its tasks are gone
) strict;
create index summaries_to_empty on summaries (campaign) where emptied = 0;

-- The last act that is gone, and its sum: the next one is bound to it.
alter table meta add column acts_cut integer not null default 0;
alter table meta add column acts_cut_sum blob;
drop trigger acts_are_not_cut;
create trigger acts_are_cut_at_the_begin_only before delete on acts
when (select acts_cut from meta) < old.id
begin select raise(abort, 'acts are only added to'); end;
