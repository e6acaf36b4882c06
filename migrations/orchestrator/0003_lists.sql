-- What lists and agents are read by: the campaigns of a user, the slots of a node.
create index campaigns_by_owner on campaigns (owner, id);
create index slots_by_node on slots (node);
