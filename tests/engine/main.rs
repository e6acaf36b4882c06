//! Clusters in memory: decisions of the planner, the scheduler and the journal, without clock or
//! network.

mod book_and_scheduler;
mod calendar;
mod cases;
mod explained;
mod fairness;
mod gangs;
mod growth;
mod histories;
mod history_of_bugs;
mod intake;
mod invariants;
mod journal;
mod lists;
mod losses;
mod moving;
mod nodes;
mod operations;
mod peers;
mod placing;
mod pools;
mod price;
mod quiet;
mod recorded;
mod recovery;
mod regressions;
mod scenarios;
mod sharing;
#[path = "../support/mod.rs"]
mod support;
mod tags;
mod taken_over;
mod taking_back;
mod units;
mod urgent;
mod work;
