//! An agent of root, with no more capabilities than its unit leaves it, and the users that it
//! serves.
//!
//! The users are in files that only the agent and its slots see, in a mount namespace of their own. That
//! takes root; another user leaves the test out, and says so.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::head;
use crate::support::slot;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::head::{Agent, Head};
use crate::support::slot::{marked, shell, site};
use apportion::orchestrator::wire::{Reason, SlotEnd, SlotStart, SlotStop, StopReason};

/// Beside the users of this machine.
const USERS: &str = "\
ann:x:1000:1000::/:/bin/sh
bob:x:1001:1001::/:/bin/sh
daemon99:x:999:999::/:/bin/sh
toor:x:0:0::/:/bin/sh
cyd:x:4201:4201::/:/bin/sh
dan:x:4202:4202::/:/bin/sh
eve:x:4203:4203::/:/bin/sh
flo:x:4204:4204::/:/bin/sh
";
const GROUPS: &str = "\
ann:x:1000:
bob:x:1001:
cyd:x:4201:
dan:x:4202:
eve:x:4203:
flo:x:4204:
crew:x:2000:ann,bob
night:x:2001:ann
";

/// The capabilities that the unit leaves its agent.
fn capabilities() -> String {
    let unit = format!("{}/packaging/apportion-agent-run.service", env!("CARGO_MANIFEST_DIR"));
    let unit = fs::read_to_string(unit).unwrap();
    let mut lines = unit.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = lines
        .next()
        .unwrap()
        .split(' ')
        .map(|name| format!("+{}", name.strip_prefix("CAP_").unwrap().to_lowercase()));
    let names: Vec<String> = names.collect();
    format!("-all,{}", names.join(","))
}

/// The command that starts an agent with these users and with the capabilities of the unit.
fn by(folder: &Path) -> Vec<String> {
    for (name, more) in [("passwd", USERS), ("group", GROUPS)] {
        let here = fs::read_to_string(format!("/etc/{name}")).unwrap();
        let ours = |line: &&str| {
            !line.split(':').nth(2).is_some_and(|id| more.contains(&format!(":{id}:")) && id != "0")
        };
        let kept: Vec<&str> = here.lines().filter(ours).collect();
        fs::write(folder.join(name), format!("{}\n{more}", kept.join("\n"))).unwrap();
    }
    let folder = folder.to_str().unwrap();
    let script = format!(
        "umask 077 && mount --bind {folder}/passwd /etc/passwd && mount --bind {folder}/group /etc/group && \
         exec setpriv --bounding-set {} \"$@\"",
        capabilities()
    );
    let words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", &script, "sh"];
    words.map(str::to_owned).into()
}

/// The processes of slots and tasks below a spool; they end with the test.
struct Processes(PathBuf);

impl Drop for Processes {
    fn drop(&mut self) {
        let mark = self.0.to_str().unwrap().as_bytes();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let has_it = |pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.windows(mark.len()).any(|part| part == mark)
        };
        for pid in pids.filter(has_it).chain(marked(mark)) {
            let pid = pid.to_string();
            let _ = Command::new("kill").args(["-9", &pid]).stderr(Stdio::null()).status();
        }
    }
}

fn start(user: &str, uid: Option<u32>) -> SlotStart {
    SlotStart { user: user.to_owned(), uid, ..slot::start() }
}

/// Says why the tests are left out here, if they are.
fn is_left_out() -> bool {
    let works = slot::is_root()
        && Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|it| it.success())
        && Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !works {
        slot::say("left out: it takes root, and namespaces of mounts");
    }
    !works
}

/// Number of a user's processes, without the processes of slots.
fn processes_of(uid: u32) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.parse::<u32>().is_ok())
    });
    let own = pids.filter(|entry| entry.metadata().is_ok_and(|it| it.uid() == uid));
    let programs = own.filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok());
    programs.filter(|name| name.trim() != "apportion").count()
}

#[tokio::test]
async fn an_agent_of_root_serves_each_user_as_itself() {
    if is_left_out() {
        return;
    }
    let (folder, work, spool) = site();
    let _processes = Processes(spool.clone());
    let text = "id -u > id.$APPORTION_TASK_ID; id -G >> id.$APPORTION_TASK_ID
      ls $SLOTS/* > seen.$APPORTION_TASK_ID 2>&1; cat $SLOTS/../books/* >> seen.$APPORTION_TASK_ID 2>&1
      [ $APPORTION_TASK_ID = 2 ] || exit 0
      (setsid sh -c 'trap \"\" TERM; sleep 9301; :' &); sleep 9302";
    let mut spec = shell(&work, text);
    spec.environment.insert("SLOTS".to_owned(), spool.join("slots").to_str().unwrap().to_owned());
    spec.environment.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let head = Head::start(spec).await;
    let refused = [
        (20, "toor", None, "--allow-root"),
        (21, "root", Some(0), "--allow-root"),
        (22, "daemon99", None, "below 1000"),
        (23, "ann", Some(1001), "at the head"),
        (24, "nobody-has-it", None, "no user"),
    ];
    for (share, user, uid, _) in refused {
        head.want(share, start(user, uid));
    }
    head.want(31, start("ann", Some(1000)));
    head.want(32, start("bob", Some(1001)));
    head.give(31, [1]);
    head.give(32, [2, 3]);
    let agent = Agent::start_by(&by(folder.path()), &head, &spool, &["--limits", "watched"]);
    for (share, user, _, says) in refused {
        let last = head.until_gone(share).await;
        assert_eq!(last.end, Some(SlotEnd::NoUser), "{user}: {last:?}");
        assert!(last.text.unwrap().contains(says), "{user}");
    }
    head.until_results(31, 1).await;
    head.until("begun", |book| book.slots[&32].seen_running.last().copied()).await;
    let mark = spool.to_str().unwrap().as_bytes();
    let since = Instant::now();
    while !work.join("seen.2").exists() || marked(mark).len() < 4 {
        assert!(since.elapsed() < head::PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let read = |name: &str| fs::read_to_string(work.join(name)).unwrap();
    assert_eq!(read("id.1"), "1000\n1000 2000 2001\n");
    assert_eq!(read("id.2"), "1001\n1001 2000\n");
    for (task, uid) in [(1, 1000), (2, 1001)] {
        assert_eq!(fs::metadata(work.join(format!("id.{task}"))).unwrap().uid(), uid);
        let seen = read(&format!("seen.{task}"));
        assert!(seen.contains("ermission denied") && !seen.contains("journal"), "{seen}");
    }
    let of = |share| fs::metadata(spool.join("slots").join(head.slot(share))).unwrap();
    for (share, uid) in [(31, 1000), (32, 1001)] {
        assert_eq!((of(share).uid(), of(share).mode() & 0o777), (uid, 0o700), "{share}");
    }
    // A slot of another user is killed: the agent ends what it left, and reads its journal as that user.
    let pid = fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let words = fs::read(entry.path().join("cmdline")).ok()?;
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let is_it = words.contains(" slot ") && words.contains(&head.slot(32));
        entry.file_name().to_str().filter(|_| is_it).map(str::to_owned)
    });
    // Else it could neither read its own figures nor tell the kernel that a task is to go before it.
    let pid = pid.unwrap();
    assert_eq!(fs::metadata(format!("/proc/{pid}/auxv")).unwrap().uid(), 1001);
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    let last = head.until_gone(32).await;
    assert_eq!(last.end, Some(SlotEnd::Died), "{last:?}");
    let ends: Vec<_> =
        head.book().slots[&32].results.values().map(|end| (end.task.task, end.why)).collect();
    assert_eq!(ends, [(2, Reason::Lost), (3, Reason::Returned)]);
    let sleeps = |words: &[u8]| words.windows(4).any(|part| part == b"9301" || part == b"9302");
    let left = fs::read_dir("/proc").unwrap().flatten();
    let left =
        left.filter(|entry| sleeps(&fs::read(entry.path().join("cmdline")).unwrap_or_default()));
    assert_eq!(left.count(), 0, "what it left behind is ended");
    drop(agent);
}

/// A task that multiplies: it can have no more processes than its slot may, its neighbour goes on, and
/// nothing of it is left once it is told to end.
async fn multiplying(limits: &str, user: (&str, u32), other: (&str, u32)) {
    if is_left_out() {
        return;
    }
    let (folder, work, spool) = site();
    let _processes = Processes(spool.clone());
    // If bash cannot start another process, it tries again; if it gives up, it begins anew in the same
    // process.
    let multiply =
        "trap 'exec bash multiply' EXIT\nf() { f | f & sleep 0.05; }\nwhile :; do f; done\n";
    fs::write(work.join("multiply"), multiply).unwrap();
    let text = "[ $APPORTION_TASK_ID = 1 ] || exec cat /proc/self/cgroup > own
      exec bash multiply 2>/dev/null";
    let mut spec = shell(&work, text);
    spec.environment.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let head = Head::start(spec).await;
    let uid = user.1;
    head.want(41, start(user.0, Some(uid)));
    head.give(41, [1]);
    let flags = ["--limits", limits, "--max-processes", "40"];
    let agent = Agent::start_by(&by(folder.path()), &head, &spool, &flags);
    let since = Instant::now();
    let mut most = 0;
    // The slot and its threads count too.
    while most < 30 || since.elapsed() < Duration::from_secs(2) {
        most = most.max(processes_of(uid));
        let results = head.book().slots[&41].results.clone();
        assert!(since.elapsed() < head::PATIENCE && results.is_empty(), "{most}: {results:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(most <= 40, "it has {most} processes");
    head.want(42, start(other.0, Some(other.1)));
    head.give(42, [2]);
    let results = head.until_results(42, 1).await;
    assert_eq!(results[0].why, Reason::Done, "{results:?}");
    // Each task has a cgroup of its own, for every umask of the agent.
    let own = fs::read_to_string(work.join("own")).unwrap();
    assert_eq!(own.contains("/lane0"), limits == "cgroup1", "{own}");
    head.stop(41, SlotStop { why: StopReason::Cancelled, by_ms: Some(100) });
    head.until_gone(41).await;
    // The slot itself ends once the agent has its last report.
    let gone = Instant::now();
    while 0 < processes_of(uid) {
        assert!(gone.elapsed() < head::PATIENCE, "something of it is left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(agent);
}

#[tokio::test]
async fn a_task_that_multiplies_is_bounded_where_the_slot_watches() {
    multiplying("watched", ("cyd", 4201), ("dan", 4202)).await;
}

#[tokio::test]
async fn a_task_that_multiplies_is_bounded_by_cgroups_of_version_1() {
    let pids = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    if !pids.contains(":pids:") {
        slot::say("left out: no cgroups of version 1 count processes here");
        return;
    }
    multiplying("cgroup1", ("eve", 4203), ("flo", 4204)).await;
}
