//! Daemon, orchestrator, agents and slots are killed and stopped at random under a bag of tasks.
//! Then the test counts again, from the output of the tasks, the journals of the slots and the
//! database.
//!
//! `cargo test` does it 40 times. `KILLS=300 cargo test --test system kill_matrix::` does it 300 times
//! over 5,100 tasks, and `KILLS=3000` is for a night. `SEED` repeats the choices, though not their moments.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::print_stdout, reason = "seed and figures")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::fleet::{CONFIG, Fleet, Part, Plan, lot, marked, shares, signal};
use apportion::slot::mark;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use sqlx::{Connection, Row, SqliteConnection};

const AGENTS: usize = 8;

/// A task records its begin and its end. It holds a folder with its attempt and process in the
/// name, and reports a living process of another attempt. A fifth of the tasks leave a process
/// behind.
const TASK: &str = r#"
t=$APPORTION_TASK_ID a=$APPORTION_ATTEMPT
echo "$t $a $APPORTION_SLOT" >> begun
mkdir -p lock/$t; mkdir lock/$t/$a.$$ || echo "$t.$a has no lock" >> twice
for o in lock/$t/*; do
  case ${o##*/} in $a.*) continue;; esac
  if tr '\0' '\n' 2>/dev/null < /proc/${o##*.}/environ | grep -qx "APPORTION_TASK_ID=$t"
  then echo "$t.$a lives beside ${o##*/}" >> twice; fi
done
[ $((t % 5)) = 0 ] && (setsid sh -c "mkdir lock/$t/$a.\$\$; exec sleep 2" &)
sleep LENGTH
echo "$t $a" >> ended
"#;

/// A STOP that waits for its CONT.
struct Stopped {
    pid: u32,
    agent: usize,
    until: Instant,
}

/// Acts on the fleet, and their observed effects.
struct Matrix {
    fleet: Fleet,
    lots: ChaCha8Rng,
    longest_stop: u64,
    stopped: Vec<Stopped>,
    counts: BTreeMap<&'static str, u64>,
    /// Shares that the daemon has named.
    seen: BTreeSet<u64>,
    outlived: Vec<String>,
}

impl Matrix {
    /// The agent whose spool a slot is in.
    fn agent_of(&self, pid: u32) -> usize {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_of = |agent: &usize| {
            let spool = self.fleet.folder().join(format!("n{agent}/"));
            words.contains(spool.to_str().unwrap())
        };
        (1..=AGENTS).find(is_of).unwrap_or(0)
    }

    /// Kills or stops a process.
    fn hurt(&mut self) {
        let slots = self.fleet.slots();
        let (name, pid, part) = match self.lots.random_range(0..100) {
            0..10 => ("daemon", self.fleet.pid(Part::Daemon), Some(Part::Daemon)),
            10..30 => {
                let part = Part::Orchestrator;
                ("orchestrator", self.fleet.pid(part), Some(part))
            }
            30..60 => {
                let part = Part::Agent(self.lots.random_range(1..=AGENTS));
                ("agent", self.fleet.pid(part), Some(part))
            }
            _ if slots.is_empty() => return,
            _ => ("slot", slots[self.lots.random_range(0..slots.len())].1, None),
        };
        let stops = self.lots.random_bool(0.25);
        let agent = match part {
            Some(Part::Agent(agent)) => agent,
            Some(_) => 0,
            None => self.agent_of(pid),
        };
        // A stopped slot whose agent is stopped too is like a paused machine: no lease covers that
        // (T3 does). So only a single process of a node is stopped at a time.
        let is_still = |one: &Stopped| one.agent == agent && (agent > 0 || one.pid == pid);
        if stops && !self.stopped.iter().any(is_still) {
            signal(pid, Signal::STOP);
            let pause = Duration::from_millis(self.lots.random_range(1_000..self.longest_stop));
            self.stopped.push(Stopped { pid, agent, until: Instant::now() + pause });
            *self.counts.entry("stopped").or_default() += 1;
            return;
        }
        match part {
            Some(part) => self.fleet.kill(part),
            None => signal(pid, Signal::KILL),
        }
        *self.counts.entry(name).or_default() += 1;
    }

    fn go_on(&mut self, all: bool) {
        let now = Instant::now();
        for one in self.stopped.extract_if(.., |one| all || one.until <= now) {
            signal(one.pid, Signal::CONT);
        }
    }

    /// T5: a share that the daemon has forgotten has no process.
    async fn look_for_outliving(&mut self) {
        let Some(schedule) = self.fleet.schedule().await else { return };
        if schedule.publication.is_none() {
            return;
        }
        let now = shares(&schedule);
        for (slot, pid) in marked(self.fleet.folder()) {
            let share: u64 = slot.rsplit('-').next().unwrap().parse().unwrap();
            let is_forgotten = self.seen.contains(&share) && !now.contains(&share);
            if is_forgotten && mark(i32::try_from(pid).unwrap()).slot.is_some() {
                let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                self.outlived.push(format!("{slot}: {pid} {}", words.replace('\0', " ")));
            }
        }
        self.seen.extend(now);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_stopped_at_random_nothing_is_lost_or_runs_twice() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let kills = number("KILLS").unwrap_or(40);
    let seed = number("SEED").unwrap_or_else(lot);
    let tasks = if kills < 300 { 15 * kills } else { 17 * kills };
    let longest_stop = if kills < 300 { 4_000 } else { 20_000 };
    println!("SEED={seed} KILLS={kills}: {tasks} tasks");
    // The lease is longer than any stop of a node, even if the machine pauses for half a minute.
    // Attempts are therefore given up for kills, and not for the lease. (A10 in fleet.rs covers
    // leases.)
    let lease = if kills < 300 { "12s" } else { "40s" };
    let plan = Plan {
        config: CONFIG,
        agents: AGENTS,
        agent_flags: &["--memory", "512MB"],
        head_flags: &["--lease", lease, "--linger", "1s"],
        detours: BTreeMap::new(),
        ports: None,
    };
    let mut fleet = Fleet::start(&plan).await;
    fleet.keep();
    // The bag outlasts the kills.
    let length = if kills < 300 { "0.3" } else { "1.2" };
    let text = TASK.replace("LENGTH", length);
    let bag = json!({ "shell": text, "tasks": tasks, "grace": "2s" });
    let bag = fleet.submit(bag).await;
    let sleepers = json!({ "shell": "echo >> slept; exec sleep 10000", "tasks": 40, "max": 2,
        "grace": "2s" });
    let sleepers = fleet.submit(sleepers).await;
    let mut matrix = Matrix {
        fleet,
        lots: ChaCha8Rng::seed_from_u64(seed),
        longest_stop,
        stopped: Vec::new(),
        counts: BTreeMap::new(),
        seen: BTreeSet::new(),
        outlived: Vec::new(),
    };
    let begun = Instant::now();
    let patience = Duration::from_secs(120 + 4 * kills);
    let (mut hurts, mut is_cancelled) = (0, false);
    loop {
        let pause = matrix.lots.random_range(50..500);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        matrix.go_on(kills <= hurts);
        matrix.fleet.revive();
        if hurts < kills {
            matrix.hurt();
            hurts += 1;
        }
        if hurts % 5 == 0 || kills <= hurts {
            matrix.look_for_outliving().await;
        }
        let detail = matrix.fleet.campaign(bag).await;
        let state = detail.as_ref().map(|detail| detail.campaign.state.as_str());
        let is_over = state.is_some_and(|state| state != "running" && state != "finishing");
        if (is_over || kills <= 2 * hurts) && !is_cancelled {
            // T6: an acknowledged fact is stored, for all later events.
            let path = format!("/v1/campaigns/{sleepers}/state");
            let body = Some(json!({ "state": "cancelled" }));
            let answer = matrix.fleet.ask(Method::PUT, &path, body).await;
            is_cancelled = answer.is_ok_and(|(status, _)| status.is_success());
            if is_cancelled {
                matrix.fleet.kill(Part::Orchestrator);
            }
        }
        if is_over && is_cancelled {
            break;
        }
        if patience < begun.elapsed() {
            let kept = matrix.fleet.folder().display();
            panic!("SEED={seed}: not at its end: {detail:?}; see {kept}; {}", matrix.fleet.logs());
        }
    }
    let Matrix { mut fleet, counts, outlived, .. } = matrix;
    println!("{hurts} in {} s: {counts:?}", begun.elapsed().as_secs());
    // The last turn of the loop may have killed the orchestrator.
    fleet.revive();
    fleet.until_state(sleepers, "cancelled").await;
    let nothing_runs = async |fleet: &Fleet| marked(fleet.folder()).is_empty().then_some(());
    fleet.until("no process is left", nothing_runs).await;
    assert_eq!(outlived, Vec::<String>::new(), "T5: SEED={seed}; {}", fleet.logs());
    fleet.kill(Part::Orchestrator);
    recount(&fleet, bag, tasks, seed).await;
    fs::remove_dir_all(fleet.folder()).unwrap();
}

/// Contents of the journals of all slots: the slots in which each attempt began, and the attempts
/// that are done.
#[derive(Default)]
struct Journals {
    begun: BTreeMap<(u64, u64), Vec<u64>>,
    done: BTreeSet<(u64, u64)>,
}

impl Journals {
    fn read(folder: &Path, campaign: u64) -> Journals {
        let mut all = Journals::default();
        for agent in 1..=AGENTS {
            let slots = fs::read_dir(folder.join(format!("n{agent}/slots"))).unwrap();
            for slot in slots.flatten() {
                let name = slot.file_name().into_string().unwrap();
                let share = name.rsplit('-').next().unwrap().parse().unwrap();
                let bytes = fs::read(slot.path().join("journal")).unwrap_or_default();
                for record in records(&bytes) {
                    all.enter(share, &record, campaign);
                }
            }
        }
        all
    }

    fn enter(&mut self, share: u64, record: &Value, campaign: u64) {
        let attempt = |value: &Value| {
            let [c, task, attempt] =
                [0, 1, 2].map(|place: usize| value[place].as_u64().unwrap_or_default());
            (c == campaign).then_some((task, attempt))
        };
        if let Some(id) = attempt(&record["Begin"]) {
            self.begun.entry(id).or_default().push(share);
        }
        let end = &record["End"];
        if end["why"] == "done" {
            self.done.extend(attempt(&end["task"]));
        }
    }
}

/// The records of a journal, up to the first incomplete record.
fn records(mut bytes: &[u8]) -> Vec<Value> {
    let mut found = Vec::new();
    while bytes.len() > 9 {
        let length = usize::try_from(u32::from_le_bytes(bytes[..4].try_into().unwrap())).unwrap();
        let Some(payload) = bytes.get(9..9 + length) else { break };
        let Ok(record) = serde_json::from_slice(payload) else { break };
        found.push(record);
        bytes = &bytes[9 + length..];
    }
    found
}

/// An attempt, as the database has it.
struct Attempt {
    share: u64,
    why: String,
}

async fn attempts(folder: &Path, campaign: u64) -> BTreeMap<(u64, u64), Attempt> {
    let mut database = open(folder).await;
    let query =
        "select task, attempt, share, coalesce(reason, 'open') from attempts where campaign = ?";
    let rows = sqlx::query(query).bind(i64::try_from(campaign).unwrap());
    let rows = rows.fetch_all(&mut database).await.unwrap();
    let number = |row: &sqlx::sqlite::SqliteRow, place: usize| {
        u64::try_from(row.get::<i64, _>(place)).unwrap()
    };
    let read = |row: &sqlx::sqlite::SqliteRow| {
        let id = (number(row, 0), number(row, 1));
        (id, Attempt { share: number(row, 2), why: row.get(3) })
    };
    rows.iter().map(read).collect()
}

async fn open(folder: &Path) -> SqliteConnection {
    let path = folder.join("orchestrator.db");
    SqliteConnection::connect(&format!("sqlite:{}", path.display())).await.unwrap()
}

/// Counts T1 to T4, T6 and T11 again.
async fn recount(fleet: &Fleet, bag: u64, tasks: u64, seed: u64) {
    let folder = fleet.folder();
    let say = format!("SEED={seed}; see {}", folder.display());
    assert_eq!(fleet.lines("twice"), Vec::<String>::new(), "T2: {say}");
    let all = attempts(folder, bag).await;
    let journals = Journals::read(folder, bag);
    let mut begun = BTreeMap::new();
    for line in fleet.lines("begun") {
        let words: Vec<&str> = line.split(' ').collect();
        let id = (words[0].parse::<u64>().unwrap(), words[1].parse::<u64>().unwrap());
        let share: u64 = words[2].rsplit('-').next().unwrap().parse().unwrap();
        let before = begun.insert(id, share);
        assert_eq!(before, None, "T1: {id:?} began twice: {say}");
    }
    let ended: BTreeSet<(u64, u64)> = fleet
        .lines("ended")
        .iter()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(task, attempt)| (task.parse().unwrap(), attempt.parse().unwrap()))
        .collect();
    for (id, share) in &begun {
        let attempt = all.get(id).unwrap_or_else(|| panic!("T6: {id:?} has no row: {say}"));
        assert_eq!(attempt.share, *share, "T1: {id:?}: {say}");
        assert_ne!(attempt.why, "returned", "{id:?} began and counts as not begun: {say}");
        assert_eq!(journals.begun.get(id), Some(&vec![*share]), "T1: {id:?}: {say}");
    }
    let mut done = BTreeMap::<u64, u64>::new();
    let mut last = BTreeMap::<u64, u64>::new();
    let mut reasons = BTreeMap::<&str, u64>::new();
    for ((task, attempt), row) in &all {
        *reasons.entry(&row.why).or_default() += 1;
        let id = (*task, *attempt);
        // Attempts of a task have the numbers 1, 2, and so on.
        assert_eq!(last.insert(*task, *attempt).unwrap_or(0) + 1, *attempt, "{id:?}: {say}");
        match row.why.as_str() {
            "done" => {
                *done.entry(*task).or_default() += 1;
                assert!(begun.contains_key(&id) && ended.contains(&id), "{id:?}: {say}");
                assert!(journals.done.contains(&id), "{id:?} is done in no journal: {say}");
            }
            "lost" | "returned" | "preempted" | "varied-off" => {
                // A result that a slot wrote down is never lost.
                assert!(
                    !journals.done.contains(&id),
                    "T3: {id:?} was done, counts as {}: {say}",
                    row.why
                );
            }
            other => panic!("T11: {id:?} ended with {other}: {say}"),
        }
    }
    let twice: Vec<_> = done.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "T3: {twice:?}: {say}");
    assert_eq!(done.len(), usize::try_from(tasks).unwrap(), "T4: {say}");
    let mut database = open(folder).await;
    let query =
        "select state, tries, max(losses), count(*) from tasks where campaign = ? group by 1, 2";
    let rows = sqlx::query(query).bind(i64::try_from(bag).unwrap());
    let rows = rows.fetch_all(&mut database).await.unwrap();
    assert_eq!(rows.len(), 1, "T4, T11: {say}");
    let (state, tries): (String, i64) = (rows[0].get(0), rows[0].get(1));
    let (losses, count): (i64, i64) = (rows[0].get(2), rows[0].get(3));
    assert_eq!((state.as_str(), tries), ("done", 0), "T11: {say}");
    assert_eq!(u64::try_from(count).unwrap(), tasks, "T4: {say}");
    println!("{reasons:?}, of one task {losses} lost at most");
}
