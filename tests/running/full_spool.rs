//! A node whose spool is full: tasks get an error, results arrive, nothing begins without a record,
//! and work goes on when there is space again. The disk is a file system in memory, which has to be
//! mounted.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::slot;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::head::{Agent, Head};
use crate::support::slot::{id, is_root, shell};
use apportion::orchestrator::wire::{
    Channel, OutputRequest, Reason, SlotEnd, SlotStart, TaskResult,
};
use tempfile::TempDir;

/// A small file system in memory, unmounted in the end.
struct Disk {
    folder: TempDir,
}

impl Disk {
    /// `None`: this user cannot mount.
    fn mount(size: &str) -> Option<Disk> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size},mode=0755");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path());
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        is_mounted.then_some(Disk { folder })
    }

    /// Fills the disk up to `left` bytes.
    fn fill(&self, left: u64) {
        let path = self.filler();
        let mut file = fs::File::create(&path).unwrap();
        let mut written = 0;
        while file.write_all(&[0; 4096]).is_ok() {
            written += 4096;
        }
        file.set_len(written - left).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.folder.path().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A process that still runs there holds the mount.
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}

fn wanted() -> SlotStart {
    SlotStart { linger_ms: 2_000, ..slot::start() }
}

/// Tasks that note their begin elsewhere, and write 300 KB.
fn text(work: &Path) -> String {
    let begun = work.join("begun").display().to_string();
    format!("echo $APPORTION_TASK_ID >> {begun}; head -c 300000 /dev/zero || exit 9")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_spool_stops_work_until_there_is_room() {
    let Some(disk) = Disk::mount("2m").filter(|_| is_root()) else {
        slot::say("LEFT OUT: a full spool: mounting one is not permitted");
        return;
    };
    let work = tempfile::tempdir().unwrap();
    fs::set_permissions(work.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(disk.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let spool = disk.folder.path().join("spool");
    let head = Head::start(shell(work.path(), &text(work.path()))).await;
    let mut agent = Agent::start(&head, &spool, &["--min-uid", "1", "--limits", "watched"]);
    head.want(7, wanted());
    head.give(7, [1]);
    let results = head.until_results(7, 1).await;
    assert_eq!((results[0].why, results[0].out[0]), (Reason::Done, 300_000));

    // A task that fills the disk is told, and its result arrives though the journal takes no more.
    disk.fill(100_000);
    head.give(7, [2]);
    let results = head.until_results(7, 2).await;
    assert_eq!((results[1].why, results[1].exit), (Reason::Exit, Some(9)), "{:?}", results[1]);
    // The last page of the journal has room for some tasks yet.
    disk.fill(0);
    head.give(7, 3..=40);
    head.until_results(7, 40).await;
    let last = head.until_gone(7).await;
    assert_eq!(last.end, Some(SlotEnd::Idle), "{last:?}");
    let text = last.text.unwrap_or_default();
    assert!(text.contains("is full") || text.contains("No space left"), "{text}");
    let request = OutputRequest {
        request: 1,
        share: 7,
        task: id(1),
        channel: Channel::Out,
        from: 0,
        follow: false,
    };
    let (said, end) = head.read(request).await;
    assert_eq!((said.len(), end.problem), (300_000, None), "what was kept stays");

    // No slot starts that a later agent would not find; a new agent stands the same.
    head.want(8, wanted());
    head.give(8, [50]);
    for _ in 0..2 {
        let answers = head.book().answers;
        head.until("answers", |book| (book.answers > answers + 3).then_some(())).await;
        assert!(head.book().slots[&8].results.is_empty());
    }
    let begun = || fs::read_to_string(work.path().join("begun")).unwrap();
    let ends: Vec<_> = head.book().slots[&7].results.values().cloned().collect();
    let is_begun = |end: &&TaskResult| end.why != Reason::Returned;
    let on_record: Vec<_> =
        ends.iter().filter(is_begun).map(|end| end.task.task.to_string()).collect();
    assert_eq!(begun().lines().collect::<Vec<_>>(), on_record);
    assert!(on_record.len() < 40, "{on_record:?}");
    assert!(agent.process.try_wait().unwrap().is_none(), "the agent goes on");

    // The disk has free space again.
    fs::remove_file(disk.filler()).unwrap();
    let report = head.until("a result or an end", |book| {
        let slot = &book.slots[&8];
        (slot.is_gone || !slot.results.is_empty()).then(|| slot.report.clone())
    });
    let report = report.await;
    // A start that failed for want of space is the end of its slot, and another slot gets the task.
    if head.book().slots[&8].results.is_empty() {
        let end = report.and_then(|report| report.end);
        assert!(matches!(end, Some(SlotEnd::NotStarted | SlotEnd::Died)), "{end:?}");
        head.want(9, wanted());
        head.give(9, [50]);
        head.until_results(9, 1).await;
    }
    assert_eq!(begun().lines().last(), Some("50"));
    agent.kill();
    slot::sweep(disk.folder.path());
}
