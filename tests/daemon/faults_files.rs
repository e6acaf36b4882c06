//! The real binary on files that are not what it left, and on disks that are full or read only: it
//! refuses with the path and what to do, or says what it lost and goes on from what runs, or nothing
//! has changed. Nothing is ever wrong in silence, and no number is used again.
//!
//! `cargo test` flips some bits; `FAULTS=all cargo test --test system faults_files:: -- --nocapture`
//! flips 1,000 in each kind of file and prints figures. Disks of a size of their own need the right to
//! mount; without, they are left out, and that is said.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::print_stdout, reason = "figures, and what was left out")]

use std::path::Path;
use std::process::Command;

use crate::support::daemon::Daemon;
use crate::support::faults::rig::{Scene, after, copy_files, folder, start};
use crate::support::faults::witness::{Act, Broken, Witness};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

/// Warnings of a daemon that does not trust its files.
const WARNINGS: [&str; 5] = [
    "the configuration differs from the last in effect",
    "does not lead to the last state",
    "the record had come further than this",
    "the last schedule on record is not served",
    "the feed cannot be read",
];

/// Remedies in the messages of a daemon that refuses its files.
const REMEDIES: [&str; 5] = [
    "move it away",
    "name another file",
    "restore a copy",
    "must be writable",
    "use the build that",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    Refused,
    Said,
    Harmless,
}

/// Starts a daemon on these files. Fails if the daemon is wrong without a warning.
async fn meet(scene: &Scene, files: &Path, point: &str) -> Met {
    let spare = folder();
    copy_files(files, spare.path());
    match live(scene, files, scene.witness.clone(), true).await {
        Ok(()) => return Met::Harmless,
        Err((Broken::Gone, said)) => {
            assert_refusal(&said, files, point);
            return Met::Refused;
        }
        Err((Broken::Rule(rule), said)) => {
            let is_said = WARNINGS.iter().any(|warning| said.contains(warning));
            assert!(is_said, "{point}: {rule}, and it says nothing of that:\n{said}");
        }
    }
    // The clients trust the warning: they send again the facts that the daemon lost.
    let lived = live(scene, spare.path(), scene.witness.after_a_loss(), false).await;
    if let Err((broken, said)) = lived {
        panic!("{point}: it says what it lost, and then: {broken:?}\n{said}");
    }
    Met::Said
}

fn assert_refusal(said: &str, files: &Path, point: &str) {
    let last = said.lines().rfind(|line| line.contains("state.db")).unwrap_or_default();
    let is_named = last.contains(files.to_str().unwrap());
    let is_helpful = REMEDIES.iter().any(|remedy| said.contains(remedy));
    assert!(is_named && is_helpful, "{point}: it ends, and does not say what to do:\n{said}");
}

/// A life on these files, and its output if it fails.
async fn live(
    scene: &Scene,
    files: &Path,
    mut witness: Witness,
    is_whole: bool,
) -> Result<(), (Broken, String)> {
    let daemon = start(files, &witness, &[]).map_err(|said| (Broken::Gone, said))?;
    let lived = async {
        daemon.try_get("/v1/status").await?;
        if !is_whole {
            // All clients send their knowledge.
            witness.act(&daemon, Act::Nodes).await?;
            witness.act(&daemon, Act::Progress).await?;
        }
        witness.check(&daemon).await?;
        witness.rest(&daemon).await
    };
    match lived.await {
        // Sizes of nodes and progress were lost too, so less may be had.
        Ok(rest) if rest == scene.rest || !is_whole => Ok(()),
        Ok(rest) => Err((Broken::Rule(format!("I26: in the end {rest:?}")), daemon.said())),
        Err(Broken::Gone) => {
            let status = daemon.end(60).await.expect("it ends");
            assert_eq!(status.code(), Some(1), "{}", daemon.said());
            Err((Broken::Gone, daemon.said()))
        }
        Err(rule) => Err((rule, daemon.said())),
    }
}

const BUSY: [Act; 8] =
    [Act::Nodes, Act::Ann, Act::Run, Act::Bob, Act::Leave, Act::Off, Act::Pace, Act::Progress];

fn change(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(file).unwrap();
    change(&mut bytes);
    std::fs::write(file, bytes).unwrap();
}

/// A number that is the same every time.
fn drawn(number: usize, below: usize) -> usize {
    let mut x = u64::try_from(number).unwrap().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    x ^= x >> 31;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 29;
    usize::try_from(x % u64::try_from(below).unwrap()).unwrap()
}

/// A name, the scene, the damage to its files, and the allowed outcomes.
type Damage<'a> = (&'a str, &'a Scene, &'a dyn Fn(&Path), &'a [Met]);

/// Files swapped, cut, emptied and removed.
#[tokio::test]
async fn files_that_are_not_what_was_left_are_met_with_words() {
    let killed = after(&BUSY, false).await;
    let stopped = after(&BUSY, true).await;
    let older = after(&BUSY[..3], true).await;
    let other = after(&BUSY[..3], false).await;
    let db = |folder: &Path| folder.join("state.db");
    let log = |folder: &Path| folder.join("state.db-wal");
    let mark = |folder: &Path| folder.join("state.db.mark");
    let (said, refused, harmless): (&[Met], &[Met], &[Met]) =
        (&[Met::Said], &[Met::Refused], &[Met::Harmless]);
    let either: &[Met] = &[Met::Said, Met::Refused];
    let copy = |from: &Path, to: &Path| assert!(0 < std::fs::copy(from, to).unwrap());
    let cut = |file: &Path, keep: &dyn Fn(usize) -> usize| {
        change(file, |bytes| bytes.truncate(keep(bytes.len())));
    };
    let cases: &[Damage<'_>] = &[
        ("as it was, killed", &killed, &|_| {}, harmless),
        ("as it was, stopped", &stopped, &|_| {}, harmless),
        ("no log", &killed, &|it| std::fs::remove_file(log(it)).unwrap(), said),
        ("an empty log", &killed, &|it| cut(&log(it), &|_| 0), said),
        ("half a log", &killed, &|it| cut(&log(it), &|length| length.div_euclid(2)), said),
        ("a log without its last byte", &killed, &|it| cut(&log(it), &|length| length - 1), said),
        ("another's log", &killed, &|it| copy(&log(other.files.path()), &log(it)), either),
        (
            "an older file and no log",
            &killed,
            &|it| {
                copy(&db(older.files.path()), &db(it));
                std::fs::remove_file(log(it)).unwrap();
            },
            said,
        ),
        (
            "an older file and its log",
            &killed,
            &|it| {
                copy(&db(other.files.path()), &db(it));
                copy(&log(other.files.path()), &log(it));
            },
            said,
        ),
        (
            "an older file, and this log",
            &killed,
            &|it| copy(&db(older.files.path()), &db(it)),
            &[Met::Said, Met::Refused, Met::Harmless],
        ),
        ("an older file", &stopped, &|it| copy(&db(older.files.path()), &db(it)), said),
        ("no file", &stopped, &|it| std::fs::remove_file(db(it)).unwrap(), said),
        ("an empty file", &stopped, &|it| cut(&db(it), &|_| 0), said),
        ("an empty file with a log", &killed, &|it| cut(&db(it), &|_| 0), said),
        ("100 bytes of a file", &stopped, &|it| cut(&db(it), &|_| 100), refused),
        ("a page of a file", &stopped, &|it| cut(&db(it), &|_| 4096), refused),
        ("half a file", &stopped, &|it| cut(&db(it), &|length| length.div_euclid(2)), refused),
        (
            "a file without its last page",
            &stopped,
            &|it| cut(&db(it), &|length| length - 4096),
            refused,
        ),
        ("no mark", &killed, &|it| std::fs::remove_file(mark(it)).unwrap(), harmless),
        ("half a mark", &killed, &|it| cut(&mark(it), &|length| length.div_euclid(2)), harmless),
        (
            "nonsense in shared memory",
            &killed,
            &|it| std::fs::write(it.join("state.db-shm"), vec![7; 32768]).unwrap(),
            harmless,
        ),
    ];
    for (name, scene, damage, expected) in cases {
        let files = scene.copy();
        damage(files.path());
        let met = meet(scene, files.path(), name).await;
        println!("{name}: {met:?}");
        assert!(expected.contains(&met), "{name} is {met:?}, not {expected:?}");
    }
}

/// Purpose of the mark; the test also proves that `meet` notices a missing mark.
#[tokio::test]
#[should_panic(expected = "and it says nothing of that")]
async fn without_its_mark_a_log_that_is_gone_is_not_missed() {
    let scene = after(&BUSY, false).await;
    let files = scene.copy();
    for name in ["state.db-wal", "state.db.mark"] {
        std::fs::remove_file(files.path().join(name)).unwrap();
    }
    meet(&scene, files.path(), "neither log nor mark").await;
}

/// A single bit is flipped.
#[tokio::test]
async fn a_flipped_bit_is_refused_or_said_or_harmless() {
    let flips = if std::env::var("FAULTS").is_ok_and(|faults| faults == "all") { 1000 } else { 12 };
    let (killed, stopped) = (after(&BUSY, false).await, after(&BUSY, true).await);
    for (scene, name) in
        [(&stopped, "state.db"), (&killed, "state.db-wal"), (&killed, "state.db.mark")]
    {
        let (mut refused, mut said, mut harmless) = (0, 0, 0);
        for flip in 0..flips {
            let files = scene.copy();
            let mut place = 0;
            change(&files.path().join(name), |bytes| {
                place = drawn(flip, bytes.len() * 8);
                bytes[place.div_euclid(8)] ^= 1 << (place % 8);
            });
            match meet(scene, files.path(), &format!("bit {place} of {name}")).await {
                Met::Refused => refused += 1,
                Met::Said => said += 1,
                Met::Harmless => harmless += 1,
            }
        }
        println!(
            "{name}: {flips} bits: {refused} refused, {said} said, {harmless} harmless, 0 wrong in silence"
        );
    }
}

/// A disk of its own, in memory. Gone when dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(size: &str) -> Option<Disk> {
        let folder = folder();
        let path = folder.path().to_str().unwrap().to_owned();
        let options = format!("size={size}");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs", &path]).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Disk(folder))
    }

    fn remount(&self, option: &str) {
        let options = format!("remount,{option}");
        let mount = Command::new("mount").args(["-o", &options]).arg(self.0.path()).status();
        assert!(mount.unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.unwrap().success());
    }
}

/// Row 72: a disk that becomes full ends the daemon in words; with room again it goes on, and has
/// lost nothing. C4.
#[tokio::test]
async fn row_72_a_full_disk_stops_it_and_costs_nothing() {
    let Some(disk) = Disk::mount("2m") else {
        println!("LEFT OUT: a full disk: mounting one is not permitted");
        return;
    };
    let scene = after(&BUSY, false).await;
    let (files, mut witness) = (disk.0.path(), scene.witness.clone());
    copy_files(scene.files.path(), files);
    let daemon = start(files, &witness, &[]).unwrap();
    witness.act(&daemon, Act::Progress).await.unwrap();
    let fill = |bytes: usize| std::fs::write(files.join("filler"), vec![0; bytes]);
    // Fills the disk to the last page.
    let mut size = 2 << 20;
    while fill(size).is_err() {
        size -= 4096;
    }
    let mut told = Ok(());
    for _ in 0..200 {
        told = witness.act(&daemon, Act::Progress).await;
        if told.is_err() {
            break;
        }
    }
    assert_eq!(told, Err(Broken::Gone), "it ends when it cannot write");
    assert_eq!(daemon.end(60).await.expect("it ends").code(), Some(1));
    assert_said(&daemon, &["is full; free some space, nothing is lost", "state.db"]);
    // Still full: it says so again.
    let again = start(files, &witness, &[]);
    if let Ok(again) = again {
        assert_eq!(
            again.end(60).await.and_then(|status| status.code()),
            Some(1),
            "{}",
            again.said()
        );
    }
    std::fs::remove_file(files.join("filler")).unwrap();
    if let Err((broken, said)) = live(&scene, files, witness, true).await {
        panic!("{broken:?}: {said}");
    }
}

fn assert_said(daemon: &Daemon, words: &[&str]) {
    let said = daemon.said();
    assert!(words.iter().all(|word| said.contains(word)), "{words:?}:\n{said}");
}

/// Row 72: an unwritable file is refused at the start, and ends a running daemon. C5.
#[tokio::test]
async fn row_72_a_read_only_disk_is_named_and_costs_nothing() {
    let Some(disk) = Disk::mount("8m") else {
        println!("LEFT OUT: a read-only disk: mounting one is not permitted");
        return;
    };
    let scene = after(&BUSY, false).await;
    let (files, mut witness) = (disk.0.path(), scene.witness.clone());
    copy_files(scene.files.path(), files);
    let config = folder();
    let start = |witness: &Witness| {
        Daemon::try_start(config.path(), &witness.config, &files.join("state.db"), &[])
    };
    disk.remount("ro");
    let refused = start(&witness).expect("it listens before it opens its record");
    assert_eq!(refused.end(60).await.expect("it ends").code(), Some(1));
    assert_said(&refused, &["must be writable for the user that runs apportion", "state.db"]);
    disk.remount("rw");
    let daemon = start(&witness).unwrap();
    witness.act(&daemon, Act::Progress).await.unwrap();
    drop(daemon);
    if let Err((broken, said)) = live(&scene, files, witness, true).await {
        panic!("{broken:?}: {said}");
    }
}

/// Row 72: the second daemon is told who is there; a stranger's lock is waited for, and then named.
#[tokio::test]
async fn row_72_a_record_in_use_is_left_alone() {
    let scene = after(&BUSY[..3], false).await;
    let files = scene.copy();
    let (path, mut witness) = (files.path(), scene.witness.clone());
    let first = start(path, &witness, &[]).unwrap();
    first.try_get("/v1/status").await.unwrap();
    let second = start(path, &witness, &[]).unwrap();
    assert_eq!(second.end(60).await.expect("it ends").code(), Some(1));
    assert_said(&second, &[&format!("in use by another apportion (process {})", first.pid())]);
    witness.act(&first, Act::Bob).await.unwrap();

    let stranger = SqliteConnectOptions::new().filename(path.join("state.db")).connect().await;
    let mut stranger = stranger.unwrap();
    let transaction = stranger.begin_with("begin immediate").await.unwrap();
    assert_eq!(witness.act(&first, Act::Progress).await, Err(Broken::Gone));
    assert_eq!(first.end(60).await.expect("it ends").code(), Some(1));
    assert_said(&first, &["is locked by another program; end its transaction", "state.db"]);
    transaction.rollback().await.unwrap();
    stranger.close().await.unwrap();
    let again = start(path, &witness, &[]).unwrap();
    witness.check(&again).await.unwrap();
}
