-- A sum over each event of the feed and each configuration, so that one that was changed on the disk is
-- noticed (src/store/sum.rs says over what). Null: of before.
alter table feed add column sum blob;
alter table configurations add column sum blob;
