-- Progress over time and rates are read from here, and from nothing else.
create index attempts_by_end on attempts (campaign, ended_ms, reason) where ended_ms is not null;
