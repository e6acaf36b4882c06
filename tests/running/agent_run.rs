//! Agents that run work, beside an orchestrator that the test plays: real slots, real programs.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::head;
use crate::support::slot;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::head::{Agent, Head};
use crate::support::slot::{WATCHED, marked, shell, start, user};
use apportion::orchestrator::wire::{
    AttemptId, Channel, ChunkQuery, OutputProblem, OutputRequest, Reason, Rung, SlotEnd, SlotStage,
    SlotStart, SlotStop, Stdin, StopReason,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

/// A folder for a spool and for work, which the user of the tasks can use.
struct Site {
    folder: TempDir,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let site = Site { folder };
        for path in [site.folder.path().to_owned(), site.work()] {
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        site
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn spool(&self) -> PathBuf {
        self.folder.path().join("spool")
    }

    fn mark(&self) -> Vec<u8> {
        self.spool().to_str().unwrap().as_bytes().to_vec()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // A test that failed leaves no process behind.
        for pid in slots(self).into_iter().chain(marked(&self.mark())) {
            let _ =
                Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
        }
    }
}

/// Processes of slots in the spool.
fn slots(site: &Site) -> Vec<u32> {
    let mark = site.spool().join("slots").to_str().unwrap().as_bytes().to_vec();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |pid: &u32| {
        // A child that is not yet another program looks like its slot, which leads a session.
        let number = i32::try_from(*pid).unwrap();
        if apportion::slot::session(number) != Some(number) {
            return false;
        }
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.windows(mark.len()).any(|window| window == mark)
    };
    numbers.filter(is_ours).collect()
}

/// The process of the only slot. A task that is not yet another program looks like a second slot
/// for a moment.
fn only_slot(site: &Site) -> u32 {
    let begun = Instant::now();
    loop {
        let found = slots(site);
        if let [pid] = found[..] {
            return pid;
        }
        assert!(begun.elapsed() < slot::PATIENCE, "{found:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn stop(by_ms: Option<u64>, why: StopReason) -> SlotStop {
    SlotStop { by_ms, why }
}

fn read(task: u64, channel: Channel, request: u64, follow: bool) -> OutputRequest {
    let task = AttemptId { campaign: 9, task, attempt: 1 };
    OutputRequest { request, share: 7, task, channel, from: 0, follow }
}

#[tokio::test]
async fn work_runs_and_leaves_nothing_but_its_output() {
    let site = Site::new();
    let text = "echo $APPORTION_TASK_ID; id -un >&2; [ $APPORTION_TASK_ID != 3 ]";
    let head = Head::start(shell(&site.work(), text)).await;
    head.want(7, start());
    head.give(7, 1..=5);
    let _agent = Agent::start(&head, &site.spool(), WATCHED);
    let results = head.until_results(7, 5).await;
    let ends: Vec<_> = results.iter().map(|end| (end.task.task, end.why, end.exit)).collect();
    let done = |task| (task, Reason::Done, Some(0));
    assert_eq!(ends, [done(1), done(2), (3, Reason::Exit, Some(1)), done(4), done(5)]);
    let last = head.book().last.clone().unwrap();
    assert_eq!((last.limits, last.epoch), (Rung::Watched, 1));
    let (said, end) = head.read(read(4, Channel::Out, 1, false)).await;
    assert_eq!((said.as_str(), end.problem), ("4\n", None));
    let (said, _) = head.read(read(4, Channel::Err, 2, true)).await;
    assert_eq!(said.trim(), user());
    head.stop(7, stop(None, StopReason::Finished));
    let last = head.until_gone(7).await;
    assert_eq!(last.end, Some(SlotEnd::Stopped));
    head.until("forgotten", |book| book.last.clone().filter(|last| last.slots.is_empty())).await;
    assert_eq!((slots(&site), marked(&site.mark())), (vec![], vec![]));
    assert!(!site.spool().join(format!("books/{}.slot", head.slot(7))).exists());
    // The output stays.
    let (said, _) = head.read(read(2, Channel::Out, 3, true)).await;
    assert_eq!(said, "2\n");
    let (_, end) = head.read(read(99, Channel::Out, 4, false)).await;
    assert_eq!(end, ChunkQuery { from: 0, end: true, problem: Some(OutputProblem::NoSuchAttempt) });
}

#[tokio::test]
async fn output_is_followed_while_its_task_runs() {
    let site = Site::new();
    let text = "echo first; while [ ! -e go ]; do sleep 0.1; done; echo second";
    let head = Head::start(shell(&site.work(), text)).await;
    head.want(7, start());
    head.give(7, [1]);
    let _agent = Agent::start(&head, &site.spool(), WATCHED);
    head.until("begun", |book| book.slots[&7].seen_running.first().copied()).await;
    head.book().outputs.push(read(1, Channel::Out, 1, true));
    head.until("first line", |book| {
        book.chunks.get(&1).filter(|said| *said == b"first\n").cloned()
    })
    .await;
    fs::write(site.work().join("go"), "").unwrap();
    let (said, end) = head.read(read(1, Channel::Out, 1, true)).await;
    assert_eq!((said.as_str(), end.end), ("first\nsecond\n", true));
}

#[tokio::test]
async fn lost_answers_start_nothing_twice() {
    let site = Site::new();
    let text = "mkdir $APPORTION_TASK_ID.$APPORTION_ATTEMPT";
    let head = Head::start(shell(&site.work(), text)).await;
    head.book().loses_every = 3;
    for share in [7, 8] {
        head.want(share, start());
        head.give(share, (share * 100..).take(40));
    }
    let mut agent = Agent::start(&head, &site.spool(), WATCHED);
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        agent.restart();
    }
    for share in [7, 8] {
        let results = head.until_results(share, 40).await;
        assert!(results.iter().all(|end| end.why == Reason::Done), "{results:?}");
        let tasks: BTreeSet<u64> = results.iter().map(|end| end.task.task).collect();
        assert_eq!(tasks, (share * 100..).take(40).collect());
    }
    assert_eq!(fs::read_dir(site.work()).unwrap().count(), 80);
}

#[tokio::test]
async fn restarts_of_an_agent_end_no_task() {
    let site = Site::new();
    let text = "mkdir $APPORTION_TASK_ID && while [ ! -e go ]; do sleep 0.2; done";
    let head = Head::start(shell(&site.work(), text)).await;
    for share in 1..=4 {
        head.want(share, SlotStart { lanes: 4, ..start() });
        head.give(share, (share * 10..).take(4));
    }
    let mut agent = Agent::start(&head, &site.spool(), WATCHED);
    let begun = |book: &head::Book| {
        let count: usize = book.slots.values().map(|slot| slot.seen_running.len()).sum();
        (count == 16).then_some(())
    };
    head.until("all begun", begun).await;
    let before: BTreeSet<u32> = marked(&site.mark()).into_iter().collect();
    for round in 0..50 {
        agent.restart();
        if round % 10 == 0 {
            let answers = head.book().answers;
            head.until("adopted", |book| (book.answers > answers + 2).then_some(())).await;
        }
    }
    let after: BTreeSet<u32> = marked(&site.mark()).into_iter().collect();
    // Each shell leads a process group, and waits with a chain of `sleep` commands. A child of it has
    // its name until the child is `sleep`.
    let shells = |pids: &BTreeSet<u32>| {
        let is_shell = |pid: &&u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields: Vec<&str> = stat.split(' ').collect();
            fields.get(1) == Some(&"(sh)") && fields.get(4) == Some(&pid.to_string().as_str())
        };
        pids.iter().filter(is_shell).copied().collect::<BTreeSet<u32>>()
    };
    assert_eq!(shells(&before), shells(&after));
    assert_eq!(shells(&after).len(), 16);
    fs::write(site.work().join("go"), "").unwrap();
    for share in 1..=4 {
        let results = head.until_results(share, 4).await;
        assert!(results.iter().all(|end| end.why == Reason::Done), "{results:?}");
        assert_eq!(results.len(), 4);
    }
}

/// Agents and slots are killed at random under many tasks. `KILLS=300` does more of it.
#[tokio::test]
async fn random_kills_run_nothing_twice_at_a_time_and_lose_nothing() {
    let kills: u64 = std::env::var("KILLS").map_or(30, |text| text.parse().unwrap());
    let part = 3 * kills;
    let site = Site::new();
    // A task holds a lock while it lives. A task that finds the lock of a living process reports
    // it.
    let text = r#"
      holder=$(readlink lock.$APPORTION_TASK_ID 2>/dev/null)
      [ -n "$holder" ] && grep '^State:.[RSDT]' /proc/$holder/status 2>/dev/null &&
        { echo $APPORTION_TASK_NAME $APPORTION_ATTEMPT $APPORTION_SLOT $$; cat /proc/$holder/status; \
          tr '\0' '\n' < /proc/$holder/environ | grep APPORTION; } >> twice
      ln -sfn $$ lock.$APPORTION_TASK_ID
      echo "$APPORTION_TASK_ID.$APPORTION_ATTEMPT" >> begun
      (setsid sleep 0.3 &)
      sleep 0.1"#;
    let head = Head::start(shell(&site.work(), text)).await;
    head.book().loses_every = 7;
    let wanted = SlotStart { lanes: 2, ..start() };
    for share in 0..4 {
        head.want(share + 1, wanted.clone());
        head.give(share + 1, share * part..(share + 1) * part);
    }
    let mut agent = Agent::start(&head, &site.spool(), WATCHED);
    let mut lots = ChaCha8Rng::seed_from_u64(24);
    let (mut next_share, mut count) = (5, 0);
    let start = Instant::now();
    loop {
        let done = head.renew(&wanted, &mut next_share);
        if done.len() == usize::try_from(4 * part).unwrap() {
            break;
        }
        assert!(start.elapsed() < 20 * head::PATIENCE, "{} done, {next_share}", done.len());
        let pause = Duration::from_millis(lots.random_range(50..600));
        tokio::time::sleep(pause).await;
        let victims = slots(&site);
        if count >= kills {
            continue;
        }
        count += 1;
        if victims.is_empty() || lots.random_bool(0.5) {
            agent.restart();
        } else {
            let pid = victims[lots.random_range(0..victims.len())].to_string();
            let _ = Command::new("kill").args(["-9", &pid]).stderr(Stdio::null()).status();
        }
    }
    let twice = fs::read_to_string(site.work().join("twice")).unwrap_or_default();
    assert_eq!(twice, "", "two attempts of one task lived at a time");
    let begun = fs::read_to_string(site.work().join("begun")).unwrap();
    let attempts: BTreeSet<&str> = begun.lines().collect();
    assert_eq!(attempts.len(), begun.lines().count(), "an attempt began twice");
    assert!(count >= kills.min(10), "{count} kills");
}

#[tokio::test]
async fn garbage_and_strangers_on_a_socket_harm_no_slot() {
    use std::io::Write;

    let site = Site::new();
    let head = Head::start(shell(&site.work(), "sleep 0.05")).await;
    head.want(7, start());
    head.give(7, 1..=40);
    let _agent = Agent::start(&head, &site.spool(), WATCHED);
    head.until_results(7, 1).await;
    let socket = site.spool().join("slots").join(head.slot(7)).join("socket");
    let mut lots = ChaCha8Rng::seed_from_u64(24);
    for _ in 0..100 {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        let length = lots.random_range(0..200);
        let bytes: Vec<u8> = (0..length).map(|_| lots.random()).collect();
        // The slot may hang up before all is written.
        let _ = stream.write_all(&bytes);
    }
    let results = head.until_results(7, 40).await;
    assert!(results.iter().all(|end| end.why == Reason::Done), "{results:?}");
    only_slot(&site);
}

#[tokio::test]
async fn a_killed_slot_leaves_no_process_and_loses_what_it_began() {
    let site = Site::new();
    let text = "(setsid sleep 8001 &); setsid sh -c 'trap \"\" TERM; sleep 8002; :' & sleep 8003";
    let head = Head::start(shell(&site.work(), text)).await;
    head.want(7, start());
    head.give(7, [1, 2]);
    let _agent = Agent::start(&head, &site.spool(), WATCHED);
    head.until("begun", |book| book.slots[&7].seen_running.first().copied()).await;
    let start = Instant::now();
    while marked(&site.mark()).len() < 4 {
        assert!(start.elapsed() < head::PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let pid = only_slot(&site);
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    let last = head.until_gone(7).await;
    assert_eq!(last.end, Some(SlotEnd::Died));
    assert_eq!(marked(&site.mark()), Vec::<u32>::new());
    let ends: Vec<_> =
        head.book().slots[&7].results.values().map(|end| (end.task.task, end.why)).collect();
    assert_eq!(ends, [(1, Reason::Lost), (2, Reason::Returned)]);
}

#[tokio::test]
async fn a_slot_that_no_answer_names_is_stopped() {
    let site = Site::new();
    let head = Head::start(shell(&site.work(), "sleep 9001")).await;
    head.want(7, start());
    head.give(7, [1]);
    let _agent = Agent::start(&head, &site.spool(), WATCHED);
    head.until("begun", |book| book.slots[&7].seen_running.first().copied()).await;
    head.book().slots.get_mut(&7).unwrap().is_named = false;
    head.until("forgotten", |book| book.last.clone().filter(|last| last.slots.is_empty())).await;
    assert_eq!((slots(&site), marked(&site.mark())), (vec![], vec![]));
}

#[tokio::test]
async fn a_silent_orchestrator_ends_slots_after_the_lease() {
    let site = Site::new();
    let mut spec = shell(&site.work(), "trap '' TERM; sleep 9002; sleep 9003");
    spec.grace_ms = 500;
    let head = Head::start(spec).await;
    head.book().lease_ms = 4_000;
    head.want(7, start());
    head.give(7, [1]);
    let _agent = Agent::start(&head, &site.spool(), WATCHED);
    head.until("begun", |book| book.slots[&7].seen_running.first().copied()).await;
    head.book().is_up = false;
    let silent = Instant::now();
    while !slots(&site).is_empty() || !marked(&site.mark()).is_empty() {
        assert!(silent.elapsed() < head::PATIENCE);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(silent.elapsed() > Duration::from_secs(3), "{:?}", silent.elapsed());
    head.book().is_up = true;
    let last = head.until_gone(7).await;
    assert_eq!(last.end, Some(SlotEnd::Unheard));
    assert_eq!(head.book().slots[&7].results[&1].why, Reason::Lost);
}

#[tokio::test]
async fn an_older_database_is_not_obeyed() {
    let site = Site::new();
    let head = Head::start(shell(&site.work(), "true")).await;
    head.book().epoch = 4;
    let mut agent = Agent::start(&head, &site.spool(), WATCHED);
    head.until("seen", |book| book.last.clone().filter(|last| last.epoch == 4)).await;
    head.book().epoch = 3;
    head.want(7, start());
    agent.restart();
    let answers = head.book().answers;
    head.until("answers", |book| (book.answers > answers + 1).then_some(())).await;
    assert!(head.book().slots[&7].report.is_none());
    head.book().epoch = 4;
    head.give(7, [1]);
    head.until_results(7, 1).await;
}

#[tokio::test]
async fn input_that_was_kept_is_fetched_once() {
    let site = Site::new();
    let mut spec = shell(&site.work(), "wc -c");
    spec.stdin = Stdin::Kept { length: 3 << 20 };
    let head = Head::start(spec).await;
    head.book().stdin = vec![b'x'; 3 << 20];
    head.want(7, start());
    head.give(7, [1, 2]);
    let _agent = Agent::start(&head, &site.spool(), WATCHED);
    head.until_results(7, 2).await;
    let (said, _) = head.read(read(2, Channel::Out, 1, false)).await;
    assert_eq!(said.trim(), "3145728");
}

/// The way of limits, a hog's end and its neighbours.
async fn hog_is_ended(limits: &str, rung: Rung) {
    let site = Site::new();
    let text = r#"if [ $APPORTION_TASK_ID = 1 ]; then
        exec perl -e '$n = 500 << 20; $x = "x" x $n; sleep 60'
      fi
      sleep 5; exit 3"#;
    let mut spec = shell(&site.work(), text);
    spec.environment.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    let head = Head::start(spec).await;
    for share in [7, 8] {
        head.want(share, SlotStart { lanes: 2, ..start() });
    }
    head.give(7, [1, 2]);
    head.give(8, [3]);
    let _agent = Agent::start(&head, &site.spool(), &["--min-uid", "1", "--limits", limits]);
    let results = head.until_results(7, 2).await;
    assert_eq!(head.book().last.as_ref().unwrap().limits, rung);
    let ends: Vec<_> = results.iter().map(|end| (end.task.task, end.why)).collect();
    assert_eq!(ends, [(1, Reason::Memory), (2, Reason::Exit)], "{results:?}");
    assert!(results[0].ms < 5_000 && results[0].peak_mb >= 250, "{:?}", results[0]);
    assert_eq!(head.until_results(8, 1).await[0].exit, Some(3));
    // The slot goes on.
    head.give(7, [4]);
    assert_eq!(head.until_results(7, 3).await[2].why, Reason::Exit);
    for share in [7, 8] {
        head.stop(share, stop(Some(1_000), StopReason::Finished));
        head.until_gone(share).await;
    }
}

#[tokio::test]
async fn a_hog_is_ended_by_the_slot_where_nothing_else_does() {
    hog_is_ended("watched", Rung::Watched).await;
}

#[tokio::test]
async fn a_hog_is_ended_by_the_kernel_in_cgroups_of_version_1() {
    let check = Command::new(env!("CARGO_BIN_EXE_apportion"))
        .args(["agent", "--check", "--node", "n1", "--limits", "cgroup1"])
        .output()
        .unwrap();
    if !String::from_utf8_lossy(&check.stdout).contains("cgroup v1, by the kernel") {
        slot::say("left out: no cgroups of version 1 that this user can write");
        return;
    }
    hog_is_ended("cgroup1", Rung::Cgroup1).await;
}

#[tokio::test]
async fn only_permitted_users_run_work() {
    let site = Site::new();
    let head = Head::start(shell(&site.work(), "id -un > who.$APPORTION_TASK_ID")).await;
    let refused = ["root", "daemon", "no-such-user", "../x", ""];
    for (share, name) in (10..).zip(refused) {
        head.want(share, SlotStart { user: name.to_owned(), ..start() });
    }
    head.want(20, SlotStart { uid: Some(4), ..start() });
    let no_limit = SlotStart { needs_kernel_limit: true, ..start() };
    head.want(21, no_limit);
    head.want(22, SlotStart { spec: 99, ..start() });
    head.want(7, start());
    head.give(7, [1]);
    let flags = ["--min-uid", "2", "--limits", "watched"];
    let _agent = Agent::start(&head, &site.spool(), &flags);
    for share in (10..).take(refused.len()).chain([20]) {
        let last = head.until_gone(share).await;
        assert_eq!(last.end, Some(SlotEnd::NoUser), "{last:?}");
        assert!(last.text.is_some());
    }
    assert_eq!(head.until_gone(21).await.end, Some(SlotEnd::NoLimit));
    assert_eq!(head.until_gone(22).await.end, Some(SlotEnd::NotStarted));
    head.until_results(7, 1).await;
    assert_eq!(fs::read_to_string(site.work().join("who.1")).unwrap().trim(), user());
}

/// A user may replace all that is in the folder of its slot.
#[tokio::test]
async fn swapped_files_reach_nothing_of_others() {
    let site = Site::new();
    let text = "[ $APPORTION_TASK_ID = 1 ] || sleep 9004";
    let head = Head::start(shell(&site.work(), text)).await;
    let mut agent = Agent::start(&head, &site.spool(), WATCHED);
    let mut share = 6;
    for (name, how) in [
        ("journal", "ln -s /etc/shadow %"),
        ("journal", "mkfifo %"),
        ("journal", "mkdir %"),
        ("journal", "ln -s /dev/zero %"),
        ("journal", "head -c 100000 /dev/urandom > %"),
        ("settings.json", "ln -s /etc/shadow %"),
        ("pack", "ln -s /etc/shadow %"),
    ] {
        share += 1;
        let name = name.to_owned();
        let replace = |name: &str, how: &str| {
            let folder = site.spool().join("slots").join(head.slot(share));
            let path = folder.join(name).to_str().unwrap().to_owned();
            let line = format!("rm -rf {path}; {}", how.replace('%', &path));
            assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
        };
        head.want(share, start());
        head.give(share, [1, 2]);
        head.until_results(share, 1).await;
        head.until("begun", |book| book.slots[&share].seen_running.last().copied()).await;
        let pid = only_slot(&site);
        replace(&name, how);
        assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
        let last = head.until_gone(share).await;
        assert_eq!(last.end, Some(SlotEnd::Died), "{name} {how}: {last:?}");
        let mut request = read(1, Channel::Out, share, false);
        request.share = share;
        let (said, _) = head.read(request).await;
        assert!(!said.contains("root:"), "{name} {how}: {said}");
    }
    // A socket in the place of the slot's: the next agent does not talk to it.
    share = 7;
    head.book().slots.clear();
    head.until("nothing", |book| book.last.clone().filter(|last| last.slots.is_empty())).await;
    drop(fs::remove_dir_all(site.spool().join("slots").join(head.slot(7))));
    head.want(share, start());
    head.give(share, [2]);
    head.until("begun", |book| book.slots[&share].seen_running.last().copied()).await;
    let trap = site.folder.path().join("trap");
    let listener = std::os::unix::net::UnixListener::bind(&trap).unwrap();
    listener.set_nonblocking(true).unwrap();
    let socket = site.spool().join("slots").join(head.slot(7)).join("socket");
    fs::remove_file(&socket).unwrap();
    fs::hard_link(&trap, &socket).unwrap();
    agent.restart();
    let answers = head.book().answers;
    head.until("answers", |book| (book.answers > answers + 5).then_some(())).await;
    let state = head.book().slots[&share].report.as_ref().map(|report| report.state);
    assert_eq!(state, Some(SlotStage::Starting), "no other process speaks for the slot");
    // It runs on, until its lease ends.
    only_slot(&site);
}

#[tokio::test]
async fn a_spool_serves_one_agent() {
    let site = Site::new();
    let head = Head::start(shell(&site.work(), "true")).await;
    let _agent = Agent::start(&head, &site.spool(), WATCHED);
    head.until("an exchange", |book| book.last.clone()).await;
    let second = Command::new(env!("CARGO_BIN_EXE_apportion"))
        .args(["agent", "--run", "--node", "n2", "--url", &head.url, "--spool"])
        .arg(site.spool())
        .output()
        .unwrap();
    let says = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && says.contains("another agent uses the spool"), "{says}");
    let folder = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(folder(&site.spool().join("books")), 0o700);
    assert_eq!(folder(&site.spool().join("slots")), 0o711);
}
