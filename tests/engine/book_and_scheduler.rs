//! The book of the orchestrator above the real scheduler, under random histories. An independent
//! oracle, which knows only the slots' acts, recounts the orchestrator's publications.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::both::{Fate, NODES, World};
use apportion::orchestrator::spec::{CampaignSpec, CampaignType, MemoryRetry};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

#[derive(Clone, Copy, Debug)]
enum Op {
    Submit(u8, u8, u8),
    Publish(u8),
    BringLate,
    Cycle,
    Schedule,
    Heartbeat,
    Round,
    Exchange(u8, u8, bool),
    Prepare(u8, u8),
    Begin(u8),
    End(u8, u8, u8),
    Kill(u8, u8),
    Crash(u8, bool),
    Cut(u8, u8),
    Mend(u8),
    Vary(u8, bool),
    RestartHead,
    RestartManager(u8),
    Pass(u16),
    Extend(u8, u8),
    Suspend(u8, bool),
    Resume(u8),
    Cancel(u8),
    CancelTask(u8, u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => any::<(u8, u8, u8)>().prop_map(|(a, b, c)| Op::Submit(a, b, c)),
        8 => any::<u8>().prop_map(Op::Publish),
        1 => Just(Op::BringLate),
        8 => Just(Op::Cycle),
        8 => Just(Op::Schedule),
        3 => Just(Op::Heartbeat),
        8 => Just(Op::Round),
        16 => any::<(u8, u8, bool)>().prop_map(|(a, b, c)| Op::Exchange(a, b, c)),
        8 => any::<(u8, u8)>().prop_map(|(a, b)| Op::Prepare(a, b)),
        10 => any::<u8>().prop_map(Op::Begin),
        12 => any::<(u8, u8, u8)>().prop_map(|(a, b, c)| Op::End(a, b, c)),
        1 => any::<(u8, u8)>().prop_map(|(a, b)| Op::Kill(a, b)),
        1 => any::<(u8, bool)>().prop_map(|(a, b)| Op::Crash(a, b)),
        1 => any::<(u8, u8)>().prop_map(|(a, b)| Op::Cut(a, b)),
        2 => any::<u8>().prop_map(Op::Mend),
        1 => any::<(u8, bool)>().prop_map(|(a, b)| Op::Vary(a, b)),
        1 => Just(Op::RestartHead),
        1 => any::<u8>().prop_map(Op::RestartManager),
        8 => (0..20_000_u16).prop_map(Op::Pass),
        1 => (20_000..52_000_u16).prop_map(Op::Pass),
        1 => (any::<u8>(), 1..9_u8).prop_map(|(a, b)| Op::Extend(a, b)),
        1 => any::<(u8, bool)>().prop_map(|(a, b)| Op::Suspend(a, b)),
        2 => any::<u8>().prop_map(Op::Resume),
        1 => any::<u8>().prop_map(Op::Cancel),
        1 => any::<(u8, u8)>().prop_map(|(a, b)| Op::CancelTask(a, b)),
    ]
}

/// A campaign of up to 30 tasks, of any kind that a step of the history may ask for.
fn spec(count: u8, kind: u8) -> CampaignSpec {
    let keeps = kind % 16 == 15;
    let tasks = if keeps { 1 } else { 1 + count % 30 };
    let text = format!("command = [\"true\"]\ntasks = {tasks}\ngrace = \"30s\"\nmemory = \"1GB\"");
    let mut spec = CampaignSpec::read(toml::from_str(&text).unwrap()).unwrap().0;
    spec.memory_mb = 1024 << (kind % 3 % 2);
    spec.lanes = 1 + u64::from(kind % 5 % 2);
    spec.retries = u64::from(count % 3);
    spec.keep = keeps;
    spec.task.finishes_unheard = kind.is_multiple_of(11);
    spec.max = (kind % 6 == 1).then_some(3);
    spec.max_fails = (kind % 7 == 1).then_some(2);
    // No step is larger than a node: it would wait for ever.
    let times = if spec.memory_mb == 1024 { "2x2" } else { "2x1" };
    spec.memory_retry = if kind.is_multiple_of(2) { MemoryRetry::parse(times) } else { None };
    spec.class = match kind % 4 {
        _ if keeps => Some("kept".to_owned()),
        1 => Some("urgent".to_owned()),
        _ => None,
    };
    if kind % 19 == 7 {
        spec.kind = CampaignType::Test;
    }
    spec
}

fn fate(luck: u8) -> Fate {
    match luck % 16 {
        0 | 1 => Fate::Unanswered,
        2 => Fate::Lost,
        _ => Fate::Good,
    }
}

fn play(world: &mut World, op: Op) {
    let node = |pick: u8| usize::from(pick) % NODES;
    match op {
        Op::Submit(user, count, kind) => world.submit(user, spec(count, kind)),
        Op::Publish(luck) if luck % 16 == 3 => world.publish(Fate::Late),
        Op::Publish(luck) => world.publish(fate(luck)),
        Op::BringLate => world.bring_late(),
        Op::Cycle => world.manager.cycle(),
        Op::Schedule => world.schedule(),
        Op::Heartbeat => world.heartbeat(),
        Op::Round => {
            world.heartbeat();
            world.publish(Fate::Good);
            world.manager.cycle();
            world.schedule();
            for at in 0..NODES {
                world.exchange(at, Fate::Good, false, false);
                world.prepare(at, false);
                world.begin(at);
            }
            world.pass(1_000);
        }
        Op::Exchange(at, luck, may_wait) => {
            world.exchange(node(at), fate(luck), luck % 61 == 0, may_wait);
        }
        Op::Prepare(at, luck) => world.prepare(node(at), luck % 12 == 0),
        Op::Begin(at) => world.begin(node(at)),
        Op::End(at, pick, how) => world.end(node(at), pick, how),
        Op::Kill(at, pick) => world.kill(node(at), pick),
        Op::Crash(at, loses_spool) => world.crash(node(at), loses_spool),
        Op::Cut(at, from) => world.cut(node(at), from % 3 != 0, from % 3 != 1),
        Op::Mend(at) => world.mend(node(at)),
        Op::Vary(at, is_off) => world.vary(node(at), is_off),
        Op::RestartHead => world.restart(),
        Op::RestartManager(luck) => world.manager.restart(luck % 4 == 0),
        Op::Pass(ms) => world.pass(u64::from(ms)),
        Op::Extend(pick, count) => world.extend(world.campaign(pick), u64::from(count)),
        Op::Suspend(pick, at_once) => world.suspend(world.campaign(pick), at_once),
        Op::Resume(pick) => world.resume(world.campaign(pick)),
        Op::Cancel(pick) => world.cancel(world.campaign(pick)),
        Op::CancelTask(pick, task) => {
            world.cancel_task(world.campaign(pick), u64::from(task % 32));
        }
    }
}

/// The same histories every time, so that a failure is a change of ours; or other ones, as many as
/// `BOOK_CASES` asks for.
fn config() -> ProptestConfig {
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    match std::env::var("BOOK_CASES").ok().and_then(|text| text.parse().ok()) {
        Some(cases) => ProptestConfig { cases, ..default },
        None => ProptestConfig { cases: 150, rng_seed: RngSeed::Fixed(24), ..default },
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_scheduler_is_told_the_truth(
        pace in any::<u8>(),
        ops in proptest::collection::vec(op(), 1..300),
    ) {
        let mut world = World::new(pace);
        for op in ops {
            play(&mut world, op);
            world.recount();
        }
        world.finish();
    }
}
