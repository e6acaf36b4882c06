//! A hostile slot in the place of a real slot, and hostile frames to a real slot. Only the hostile
//! slot ends, and the results of other slots arrive.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::head;
use crate::support::slot;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::head::{Agent, Head, Wanted};
use crate::support::slot::{Slot, WATCHED, id, settings, shell, site, start};
use apportion::orchestrator::wire::{
    AttemptId, Channel, Reason, RunningTask, SlotEnd, SlotOrder, SlotReport, SlotStage, SlotStop,
    StopReason, TaskResult, TaskSignal,
};
use apportion::slot::wire::{
    AgentReport, FromSlot, HEAD, LeasedOrder, ReadRequest, SOCKET, ToSlot, encode,
};
use apportion::slot::{since_boot_ms, start_time};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Frames of each kind.
const FRAMES: usize = 100_000;

/// The most memory of an agent with a hostile slot, in KiB: three frames of 8 MiB, decoded, and itself.
const MOST_KIB: u64 = 256 << 10;

/// The folder of the slot that this process plays, if set.
const PLAYS: &str = "HOSTILE_SLOT";

/// Kind of hostile behaviour.
const HOW: &str = "HOSTILE_SLOT_HOW";

fn result(number: u64, text: &str) -> TaskResult {
    TaskResult {
        number,
        task: id(number),
        why: Reason::Done,
        exit: Some(0),
        signal: None,
        ms: u64::MAX,
        cpu_ms: u64::MAX,
        peak_mb: u64::MAX,
        rss_mb: u64::MAX,
        out: [u64::MAX; 2],
        tail: text.to_owned(),
        error: text.to_owned(),
        has_saved: false,
    }
}

/// A report that no slot gives, with a `size`.
fn forged(size: u64) -> Vec<u8> {
    let (task, ms) = (AttemptId { campaign: u64::MAX, task: size, attempt: 0 }, u64::MAX);
    let text = "\u{1}".repeat(usize::try_from(size).unwrap());
    let report = SlotReport {
        share: 8,
        state: SlotStage::Working,
        held: (0..size).map(|task| AttemptId { task, ..id(1) }).collect(),
        running: (0..size)
            .map(|_| RunningTask { task, ms, unsaved_ms: ms, has_saved: true, rss_mb: ms })
            .collect(),
        want: u64::MAX,
        results: (0..size).map(|number| result(number + 1, &text)).collect(),
        seen_order: u64::MAX,
        prepared_ms: Some(u64::MAX),
        port: None,
        end: Some(SlotEnd::Died),
        text: Some(text),
    };
    let report = AgentReport { report, needs_stdin: (0..size * 10).collect() };
    encode(&FromSlot::Report(Box::new(report)), b"").unwrap()
}

/// The report of a slot that has nothing to do.
fn idle() -> SlotReport {
    SlotReport {
        share: 8,
        state: SlotStage::Idle,
        held: Vec::new(),
        running: Vec::new(),
        want: 1,
        results: Vec::new(),
        seen_order: 1,
        prepared_ms: None,
        port: None,
        end: None,
        text: None,
    }
}

/// No test of its own: the process that plays a hostile slot, started by the tests below.
#[test]
fn plays_a_hostile_slot_where_it_is_asked_to() {
    let Ok(folder) = std::env::var(PLAYS) else { return };
    let folder = PathBuf::from(folder);
    let listener = UnixListener::bind(folder.join(SOCKET)).unwrap();
    match std::env::var(HOW).unwrap().as_str() {
        "forges" => {
            let frames: Vec<Vec<u8>> = (0..10).chain([500]).map(forged).collect();
            let mut sent = 0;
            for mut stream in listener.incoming().flatten() {
                while let Some(frame) = frames.get(if sent % 1000 == 0 { 10 } else { sent % 10 })
                    && stream.write_all(frame).is_ok()
                {
                    sent += 1;
                    if sent == FRAMES {
                        fs::write(folder.join("sent"), "").unwrap();
                    }
                }
            }
        }
        "goes-on" => {
            let report = AgentReport { report: idle(), needs_stdin: Vec::new() };
            let frame = encode(&FromSlot::Report(Box::new(report)), b"").unwrap();
            for mut stream in listener.incoming().flatten() {
                while stream.write_all(&frame).is_ok() {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
        "hangs-up" => {
            for (count, stream) in (1..).zip(listener.incoming()) {
                drop(stream);
                fs::write(folder.join("calls"), format!("{count}")).unwrap();
            }
        }
        _ => {
            // Takes all and says nothing of use.
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(&[255; HEAD]);
                let _ = stream.read_to_end(&mut Vec::new());
            }
        }
    }
}

/// A process that plays the slot of a share, with a book of it as the agent would have written it.
struct Hostile {
    process: Child,
    folder: PathBuf,
}

impl Hostile {
    fn start(head: &Head, spool: &Path, share: u64, how: &str) -> Hostile {
        let name = head.slot(share);
        let (books, folder) = (spool.join("books"), spool.join("slots").join(&name));
        fs::create_dir_all(&books).unwrap();
        fs::create_dir_all(&folder).unwrap();
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hostile_slots::plays_a_hostile_slot_where_it_is_asked_to"])
            .env(PLAYS, &folder)
            .env(HOW, how)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = i32::try_from(process.id()).unwrap();
        let identity = head.book().identity.clone();
        let own = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let book = serde_json::json!({
            "slot": name, "orchestrator": identity, "share": share, "start": start(),
            "identity": format!("{}:{}:{}", own.0, own.1, own.1), "rung": "watched",
            "process": {"pid": pid, "start": start_time(pid).unwrap(), "boot": boot.trim()},
            "failure": null,
        });
        fs::write(books.join(format!("{name}.slot")), book.to_string()).unwrap();
        let seen = serde_json::json!({"orchestrator": identity, "epoch": 1});
        fs::write(books.join("orchestrator.json"), seen.to_string()).unwrap();
        let start = Instant::now();
        while !folder.join(SOCKET).exists() {
            assert!(start.elapsed() < slot::PATIENCE);
            std::thread::sleep(Duration::from_millis(10));
        }
        // The orchestrator of the test knows it, and has given it nothing.
        head.book().slots.insert(share, Wanted { is_named: true, ..Wanted::default() });
        Hostile { process, folder }
    }

    /// True until the process is killed. It stays a zombie until its parent waits for it.
    fn lives(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The most memory that a process had, in KiB.
fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_forges_its_reports_harms_no_other() {
    let (folder, work, spool) = site();
    let head = Head::start(shell(&work, "sleep 0.02")).await;
    let hostile = Hostile::start(&head, &spool, 8, "forges");
    let agent = Agent::start(&head, &spool, WATCHED);
    head.want(7, start());
    head.give(7, 1..=100);
    let results = head.until_results(7, 100).await;
    assert!(results.iter().all(|end| end.why == Reason::Done), "{results:?}");
    let sent = hostile.folder.join("sent");
    head.until("all frames", |_| sent.exists().then_some(())).await;
    let book = head.book();
    let said = book.slots[&8].report.clone().unwrap();
    let most = |length: usize, most: usize| assert!(length <= most, "{length} of {most}");
    most(said.results.len(), 100);
    most(said.running.len(), 1);
    most(said.held.len(), 204);
    assert!(said.want <= 51 && said.end.is_none(), "{} {:?}", said.want, said.end);
    // The hostile slot asks for the input of all specifications, and has a right to its own.
    assert!(book.asked.iter().all(|spec| *spec == 5), "{:?}", book.asked);
    drop(book);
    let peak = peak_kib(agent.process.id());
    assert!(peak < MOST_KIB, "{peak} KiB");
    slot::sweep(folder.path());
}

/// A slot that hangs up and a silent slot are treated alike: the slot is stuck, and killed after
/// its time. The time of a slot that does not stop is longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_obeys_nothing_is_killed_and_no_other() {
    let (folder, work, spool) = site();
    let head = Head::start(shell(&work, "sleep 0.02")).await;
    let ways = [(8, "hangs-up"), (9, "is-mute"), (10, "goes-on")];
    let mut hostile = ways.map(|(share, how)| Hostile::start(&head, &spool, share, how));
    let _agent = Agent::start(&head, &spool, WATCHED);
    let begun = Instant::now();
    head.stop(10, SlotStop { by_ms: Some(0), why: StopReason::Preempted });
    head.want(7, start());
    head.give(7, 1..=20);
    head.until_results(7, 20).await;
    assert!(hostile.iter_mut().all(Hostile::lives));
    for (slot, (share, how)) in hostile.iter_mut().zip(ways) {
        while slot.lives() {
            assert!(begun.elapsed() < head::PATIENCE, "{how}: never killed");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let last = head.until_gone(share).await;
        assert_eq!(last.end, Some(SlotEnd::Died), "{how}: {last:?}");
        if let Ok(calls) = fs::read_to_string(slot.folder.join("calls")) {
            let seconds = begun.elapsed().as_secs() + 1;
            let calls: u64 = calls.parse().unwrap();
            assert!(calls < seconds * 60, "{calls} calls in {seconds} s");
        }
        head.give(7, [20 + share - 7]);
        head.until_results(7, usize::try_from(20 + share - 7).unwrap()).await;
    }
    slot::sweep(folder.path());
}

/// Draws a number, often at the edge of the range.
fn number(lots: &mut ChaCha8Rng) -> u64 {
    [0, 1, 255, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX, lots.random()]
        [lots.random_range(0..9)]
}

/// Forges a message that no agent sends. Its orders have low numbers, so that the orders of the
/// test count.
fn forge_message(lots: &mut ChaCha8Rng) -> ToSlot {
    let mut task = || {
        let [campaign, task, attempt] =
            [9, 1, 1].map(|usual| if lots.random_bool(0.3) { number(lots) } else { usual });
        AttemptId { campaign, task, attempt }
    };
    let (recall, cancel, task) = (vec![task(); 3], vec![task(); 3], task());
    let signals = vec![TaskSignal { task, signal: lots.random() }];
    let [share, acked, lease_until_ms, spec, from] = [(); 5].map(|()| number(lots));
    let order = lots.random_range(0..9);
    let channel = [Channel::Out, Channel::Err][lots.random_range(0..2)];
    let order = SlotOrder { share, order, acked, recall, cancel, signals, ..SlotOrder::default() };
    match lots.random_range(0..3) {
        0 => ToSlot::Order(Box::new(LeasedOrder {
            lease_until_ms,
            order: Some(order),
            specs: [].into(),
        })),
        1 => ToSlot::Read(ReadRequest { request: number(lots), task, channel, from }),
        _ => ToSlot::Stdin { spec, from, end: lots.random() },
    }
}

/// A frame that is none: cut off, too long, nested deep, or with other bytes.
fn forge_frame(lots: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = encode(&forge_message(lots), b"bytes").unwrap();
    match lots.random_range(0..5) {
        0 => bytes = (0..lots.random_range(0..200)).map(|_| lots.random()).collect(),
        1 => bytes.truncate(lots.random_range(0..bytes.len())),
        2 => bytes[..HEAD].fill(255),
        3 => {
            let depth = lots.random_range(1..5_000_u32);
            bytes = vec![b'['; HEAD + usize::try_from(depth).unwrap()];
            bytes[..4].copy_from_slice(&depth.to_le_bytes());
            bytes[4..HEAD].fill(0);
        }
        _ => {
            let place = lots.random_range(HEAD..bytes.len());
            bytes[place] = lots.random();
        }
    }
    bytes
}

/// Opens connections until enough frames are sent: 40 readable frames on each, and a last frame
/// that ends it.
#[test]
fn a_slot_outlives_a_hundred_thousand_hostile_frames() {
    let work = tempfile::tempdir().unwrap();
    let mut slot = Slot::start(&settings(shell(work.path(), "mkdir $APPORTION_TASK_ID")));
    assert_eq!(slot.run(1).why, Reason::Done);
    let socket = slot.folder.join(SOCKET);
    let mut lots = ChaCha8Rng::seed_from_u64(24);
    for _ in 0..FRAMES.div_ceil(41) {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_write_timeout(Some(slot::PATIENCE)).unwrap();
        for _ in 0..40 {
            let frame = encode(&forge_message(&mut lots), b"bytes").unwrap();
            // The slot hangs up on a reader that does not read.
            let _ = stream.write_all(&frame);
        }
        let _ = stream.write_all(&forge_frame(&mut lots));
    }
    slot.reconnect();
    slot.order = 1000;
    let result = slot.run(2);
    assert_eq!(result.why, Reason::Done, "{result:?}");
    let peak = peak_kib(slot.process.id());
    assert!(peak < MOST_KIB, "{peak} KiB");
}

#[test]
fn an_order_that_says_nothing_new_is_answered() {
    let work = tempfile::tempdir().unwrap();
    let mut slot = Slot::start(&settings(shell(work.path(), "true")));
    slot.run(1);
    for _ in 0..3 {
        slot.last = None;
        slot.send(&ToSlot::Order(Box::new(LeasedOrder {
            lease_until_ms: since_boot_ms(),
            order: Some(SlotOrder { share: 7, order: slot.order, ..SlotOrder::default() }),
            specs: [].into(),
        })));
        slot.until(|report| report.state == SlotStage::Idle);
    }
}
