-- What administrators did and who was refused, in order and for good: only ever added to.
-- Each row has a sum over itself and the sum before it, so that none can be changed or taken out unseen
-- (src/store/audit.rs says over what). `apportion audit verify` computes them again.
create table audit (
    id      integer primary key, -- 1, 2, … without a gap
    at_ms   integer not null,
    who     text    not null,    -- the name of a token, or of a user of this machine
    origin  text    not null,    -- from where
    act     text    not null,
    detail  text    not null,
    outcome text    not null,
    sum     blob    not null
) strict;
create trigger audit_is_not_changed before update on audit
begin select raise(abort, 'the audit log is only added to'); end;
create trigger audit_is_not_cut before delete on audit
begin select raise(abort, 'the audit log is only added to'); end;

-- The last row there is, so that rows cut off at the end are missed.
create table audit_head (
    one integer primary key check (one = 1),
    id  integer not null,
    sum blob    not null
) strict;
insert into audit_head (one, id, sum) values (1, 0, x'');
