-- Tasks that were added to campaigns with a key, so that a repeated request is answered and not taken twice.
create table additions (
    campaign integer not null references campaigns (id),
    key      text    not null,
    position integer not null, -- of the first task that was added
    added    integer not null,
    primary key (campaign, key)
) strict, without rowid;
