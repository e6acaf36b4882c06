-- The admission rules that a campaign passed, and the campaign as it was submitted, as JSON; null without rules.
alter table campaigns add column admission text;
