//! Parts that a cycle reuses from the last cycle equal parts made anew. After any events, a
//! scheduler restored without its caches makes the same snapshot, the same decisions and the same
//! view.
//!
//! Every cycle of every test asserts that ([`support::Cluster::cycle`]). The histories here also
//! contain events that other histories leave out: work that cannot be parsed, work that comes back
//! under its old number, users who come and go, state that was read from a store, and readers
//! between cycles.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::cluster::{assert_same, job};
use crate::support::history::History;
use crate::support::step::{Step, steps};
use crate::support::world::{SMALL, World, world};
use apportion::model::{JobId, JobSpec, Mebibytes, Name, ShareId};
use apportion::scheduler::{Scheduler, SchedulerEvent};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Additional events. Numbers are taken modulo the number of existing objects.
#[derive(Clone, Debug)]
enum Aside {
    /// A process of work that could not be parsed: an earlier process, or a new process.
    Limbo { share: u64, node: usize, memory: Option<u64> },
    /// All such processes up to this number are gone.
    LimboGone { share: u64 },
    /// A known share's process is shown to run elsewhere as well.
    Elsewhere { job: usize, node: usize },
    /// Work is over and comes again under the same number, submitted at another time or not.
    ComesAgain { job: usize, submitted: Option<u64> },
    /// A user comes for a single cycle.
    Guest { name: char },
    /// The state is stored and read again.
    Resume,
    /// No heartbeat could have been received.
    Deaf,
    /// A reader takes the view.
    Look,
}

fn aside() -> impl Strategy<Value = Aside> {
    let limbo = (0..40_u64, any::<usize>(), prop::option::of(1..5000_u64));
    let comes_again = (any::<usize>(), prop::option::of(0..1000_u64));
    prop_oneof![
        2 => limbo.prop_map(|(share, node, memory)| Aside::Limbo { share, node, memory }),
        2 => (0..60_u64).prop_map(|share| Aside::LimboGone { share }),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(job, node)| Aside::Elsewhere { job, node }),
        1 => comes_again.prop_map(|(job, submitted)| Aside::ComesAgain { job, submitted }),
        1 => prop::char::range('a', 'z').prop_map(|name| Aside::Guest { name }),
        1 => Just(Aside::Resume),
        1 => Just(Aside::Deaf),
        3 => Just(Aside::Look),
    ]
}

/// First number of shares that no other work has: of work that could not be parsed.
const LIMBO: u64 = 1 << 53;
/// First number of jobs that no other user has: of guests.
const GUESTS: u64 = 1 << 40;

fn happen(history: &mut History, aside: &Aside) {
    let scheduler = &history.cluster.scheduler;
    let view = scheduler.view();
    let job_at = |job: usize| Some(&view.jobs[job.checked_rem(view.jobs.len())?]);
    // Now and then an unknown node.
    let node_at = |node: usize| match node % (view.nodes.len() + 1) {
        known if known < view.nodes.len() => view.nodes[known].name.clone(),
        _ => Name::from("stranger"),
    };
    match *aside {
        Aside::Limbo { share, node, memory } => {
            let (share, memory) = (ShareId(LIMBO + share), memory.map(Mebibytes));
            history.cluster.record(SchedulerEvent::LimboShareSeen {
                share,
                node: node_at(node),
                memory,
            });
        }
        Aside::LimboGone { share } => {
            for share in (0..share).map(|share| ShareId(LIMBO + share)) {
                history.cluster.record(SchedulerEvent::LimboShareGone { share });
            }
        }
        Aside::Elsewhere { job, node } => {
            let share = job_at(job).and_then(|job| Some(job.shares.first()?.id));
            if let Some(share) = share {
                let (node, memory) = (node_at(node), None);
                history.cluster.record(SchedulerEvent::LimboShareSeen { share, node, memory });
                history.cluster.record(SchedulerEvent::LimboShareGone { share });
            }
        }
        Aside::ComesAgain { job, submitted } => {
            let Some(job) = job_at(job) else { return };
            let state = scheduler.state();
            let known = state.jobs.iter().find(|known| known.spec.id == job.id).unwrap();
            let submitted = submitted.unwrap_or(known.spec.submitted);
            let spec = JobSpec { submitted, ..known.spec.clone() };
            history.cluster.record(SchedulerEvent::JobCompleted { job: job.id });
            history.cluster.record(SchedulerEvent::JobArrived(spec));
        }
        Aside::Guest { name } => {
            let id = GUESTS + u64::from(u32::from(name));
            let class = view.classes.first().map_or("none".into(), |class| class.name.to_string());
            let guest = format!("u0{name}");
            history.cluster.record(SchedulerEvent::JobArrived(job(id, &guest, &class, 1)));
            history.cycle();
            history.cluster.record(SchedulerEvent::JobCompleted { job: JobId(id) });
        }
        Aside::Resume => {
            let resumed = Scheduler::from_state(scheduler.state());
            assert_same(&resumed.clone().schedule(), &scheduler.clone().schedule());
            history.cluster.scheduler = resumed;
        }
        Aside::Deaf => history.cluster.scheduler.restart_hearing(),
        Aside::Look => {
            let mut anew = scheduler.clone();
            anew.drop_cached_views();
            assert_same(&view, &anew.view());
        }
    }
}

/// A cluster, its events, and additional events here and there.
type Past = (World, Vec<Step>, Vec<Option<Aside>>);

fn past() -> impl Strategy<Value = Past> {
    let asides = prop::collection::vec(prop::option::weighted(0.4, aside()), 1..40);
    (world(SMALL), steps(SMALL, 80), asides)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, rng_seed: RngSeed::Fixed(8), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_taken_over_is_what_would_be_made_anew((world, steps, asides) in past()) {
        let mut history = History::new(world);
        for (step, aside) in steps.iter().zip(asides.iter().cycle()) {
            history.apply(step);
            if let Some(aside) = aside {
                happen(&mut history, aside);
            }
        }
        history.cycle();
    }
}
