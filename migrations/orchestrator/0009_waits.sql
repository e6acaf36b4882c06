-- Campaigns that wait: for others, as a JSON list of numbers, and for their hours. Null without such a reason.
alter table campaigns add column waits_for text;
alter table campaigns add column opens_ms integer;
