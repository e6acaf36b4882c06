-- Every configuration there was, the newest ones only: what the file said. The environment and the
-- flags that were on top of it are not here.
create table configurations (
    generation integer primary key,
    at_ms      integer not null,
    cycle      integer not null,        -- the first one under it
    source     text    not null check (source in ('start', 'apply', 'reread', 'return')),
    name       text    not null,        -- what the file was called
    text       text    not null,
    reason     text
) strict;
