//! A real slot with real programs: their environment, their ends, and leftover processes.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::slot;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::slot::{Slot, id, marked, report_dead, settings, shell, stranger};
use apportion::orchestrator::wire::{
    Channel, Checkpoint, Command, Reason, SlotEnd, SlotOrder, SlotStage, SlotStop, Stdin,
    StopReason, TaskSignal, YoungBounds,
};
use apportion::slot::wire::{MAX_STDIN_PART, ToSlot, send};
use apportion::slot::{UserIdentity, since_boot_ms};
use tempfile::tempdir;

fn argv(words: &[&str]) -> Command {
    Command::Argv(words.iter().map(|word| (*word).to_owned()).collect())
}

fn stop(by_ms: Option<u64>, why: StopReason) -> SlotOrder {
    SlotOrder { stop: Some(SlotStop { by_ms, why }), ..SlotOrder::default() }
}

/// A text that ends in as many ways as there are tasks.
const ENDS: &str = r#"case $APPORTION_TASK_ID in
  1) exit 0 ;;
  2) echo said; echo bad >&2; exit 7 ;;
  3) kill -TERM $$ ;;
  4) kill -KILL $$ ;;
  5) echo why > "$APPORTION_ERROR_FILE"; exit 66 ;;
  6) exit 255 ;;
  7) exec no-such-program ;;
esac"#;

#[test]
fn tasks_end_as_their_programs_do() {
    let work = tempdir().unwrap();
    let mut slot = Slot::start(&settings(shell(work.path(), ENDS)));
    let ends: Vec<_> = (1..=7).map(|task| slot.run(task)).collect();
    let told: Vec<_> = ends.iter().map(|end| (end.why, end.exit, end.signal)).collect();
    assert_eq!(
        told,
        [
            (Reason::Done, Some(0), None),
            (Reason::Exit, Some(7), None),
            (Reason::Signal, None, Some(15)),
            (Reason::Signal, None, Some(9)),
            (Reason::Exit, Some(66), None),
            (Reason::Exit, Some(255), None),
            (Reason::Exit, Some(127), None),
        ]
    );
    let numbers: Vec<u64> = ends.iter().map(|end| end.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!((ends[1].out, ends[1].tail.as_str()), ([5, 4], "bad\n"));
    assert_eq!(ends[4].error, "why\n");
    assert_eq!(ends[0].tail, "");
    assert_eq!(slot.output(2, Channel::Out), "said\n");
    assert_eq!(slot.output(2, Channel::Err), "bad\n");
    assert_eq!(slot.output(1, Channel::Out), "");
}

#[test]
fn programs_that_cannot_start_have_a_shells_status() {
    let work = tempdir().unwrap();
    let make = |name: &str, text: &str, mode: u32| {
        fs::write(work.path().join(name), text).unwrap();
        fs::set_permissions(work.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    make("plain", "data", 0o644);
    make("lost", "#!/no/interpreter\n", 0o755);
    make("text", "echo ran $1; exit 3\n", 0o755);
    for (program, why, exit, says) in [
        ("no-such-program", Reason::NotFound, Some(127), "no such program in PATH"),
        ("./none", Reason::NotFound, Some(127), "no such file"),
        ("./plain", Reason::NotExecutable, Some(126), "chmod +x"),
        ("./lost", Reason::NotFound, Some(127), "interpreter"),
        ("./text", Reason::Exit, Some(3), ""),
        ("", Reason::NotFound, Some(127), "empty"),
    ] {
        let mut spec = shell(work.path(), "");
        spec.command = argv(&[program, "arg"]);
        let mut slot = Slot::start(&settings(spec));
        let end = slot.run(1);
        assert_eq!((end.why, end.exit), (why, exit), "{program}: {end:?}");
        assert!(end.tail.contains(says), "{program}: {}", end.tail);
        if why != Reason::Exit {
            assert_eq!(slot.output(1, Channel::Err), end.tail);
        }
    }
    let mut slot = Slot::start(&settings(shell(&work.path().join("none"), "true")));
    let end = slot.run(1);
    assert_eq!((end.why, end.exit), (Reason::NoCwd, None));
    assert!(!work.path().join("none").exists());
}

#[test]
fn the_environment_is_what_was_chosen_and_ours() {
    let work = tempdir().unwrap();
    let mut spec = shell(work.path(), "env; pwd; cat; ls -d $TMPDIR; cat $APPORTION_NODE_FILE");
    spec.environment.insert("LANG".to_owned(), "C.UTF-8".to_owned());
    spec.time_limit_ms = Some(7_200_000);
    let mut slot = Slot::start(&settings(spec));
    assert_eq!(slot.run(4).why, Reason::Done);
    let said = slot.output(4, Channel::Out);
    let lines: Vec<&str> = said.lines().collect();
    for line in [
        "LANG=C.UTF-8",
        "HOME=/",
        "USER=ann",
        "LOGNAME=ann",
        "SHELL=/bin/sh",
        "APPORTION_CAMPAIGN_ID=9",
        "APPORTION_CAMPAIGNID=9",
        "APPORTION_TASK_ID=4",
        "APPORTION_TASKID=4",
        "APPORTION_TASK_NAME=9.4",
        "APPORTION_TASKNAME=9.4",
        "APPORTION_USER=ann",
        "APPORTION_RESOURCES=1",
        "APPORTION_WALLTIME=2:00:00",
        "APPORTION_WALLTIME_SECONDS=7200",
        "APPORTION_ATTEMPT=1",
        "APPORTION_ENTRY=4",
        "APPORTION_NODE=n1",
        "APPORTION_MEMORY_MB=512",
        "APPORTION_SLOT=test-7",
        "n1",
    ] {
        assert!(lines.contains(&line), "{line} is not in\n{said}");
    }
    for name in [
        "APPORTION_WORKDIR",
        "APPORTION_WORKING_DIRECTORY",
        "APPORTION_NODE_FILE",
        "APPORTION_NODEFILE",
        "APPORTION_CHECKPOINT_DIR",
        "APPORTION_ERROR_FILE",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(&format!("{name}=/"))), "{name}");
    }
    // The test's own environment is not passed on.
    assert!(!said.contains("CARGO"), "{said}");
    assert!(lines.contains(&work.path().to_str().unwrap()), "{said}");
}

#[test]
fn parameters_arrive_byte_for_byte() {
    let work = tempdir().unwrap();
    let mut spec = shell(work.path(), "");
    spec.command = argv(&["printf", "%s|%s", "{entry}", "{campaign}.{task}#{attempt}@{node}{x}"]);
    let mut slot = Slot::start(&settings(spec));
    let params =
        ["a b", "'\"\\", "\t", "ä€🦀", "", "{task} {entry}", "$HOME `id` $(id)", "*", "-n"];
    for (task, param) in (1..).zip(params) {
        let new = apportion::orchestrator::wire::NewTask {
            task: id(task),
            spec: 5,
            param: Some(param.to_owned()),
            gang: None,
        };
        slot.order(SlotOrder { tasks: vec![new], ..SlotOrder::default() });
        let count = usize::try_from(task).unwrap();
        slot.until_results(count);
        let said = slot.output(task, Channel::Out);
        assert_eq!(said, format!("{param}|9.{task}#1@n1{{x}}"));
    }
}

#[test]
fn input_comes_from_a_file_or_was_kept() {
    let work = tempdir().unwrap();
    fs::write(work.path().join("in.4"), "from a file").unwrap();
    let mut spec = shell(work.path(), "cat");
    spec.stdin = Stdin::File("in.{task}".to_owned());
    let mut slot = Slot::start(&settings(spec.clone()));
    assert_eq!(slot.run(4).why, Reason::Done);
    assert_eq!(slot.output(4, Channel::Out), "from a file");
    let end = slot.run(5);
    assert_eq!((end.why, end.exit), (Reason::Exit, Some(1)));
    assert!(end.tail.contains("in.5") && end.tail.contains("standard input"), "{}", end.tail);

    let bytes = vec![b'x'; MAX_STDIN_PART + 3];
    spec.command = Command::Shell("wc -c".to_owned());
    spec.stdin = Stdin::Kept { length: bytes.len().try_into().unwrap() };
    let mut slot = Slot::start(&settings(spec));
    slot.give([1, 2]);
    slot.until(|report| report.held.len() == 2);
    let (first, second) = bytes.split_at(MAX_STDIN_PART);
    let part = |from: usize, end| ToSlot::Stdin { spec: 5, from: from.try_into().unwrap(), end };
    send(&mut slot.socket, &part(0, false), first).unwrap();
    send(&mut slot.socket, &part(MAX_STDIN_PART, true), second).unwrap();
    slot.until_results(2);
    for task in [1, 2] {
        assert_eq!(slot.output(task, Channel::Out).trim(), bytes.len().to_string());
    }
}

#[test]
fn chosen_outputs_are_files_of_the_user() {
    let work = tempdir().unwrap();
    let mut spec = shell(work.path(), "echo out; echo err >&2");
    spec.output = Some("res/{node}/{entry}.txt".to_owned());
    spec.error = Some("{task}.err".to_owned());
    let mut slot = Slot::start(&settings(spec));
    let task = |task, param: &str| apportion::orchestrator::wire::NewTask {
        task: id(task),
        spec: 5,
        param: Some(param.to_owned()),
        gang: None,
    };
    let tasks =
        vec![task(1, "a"), task(2, "../../x/y"), task(3, "nul\0"), task(4, &"l".repeat(4096))];
    slot.order(SlotOrder { tasks, ..SlotOrder::default() });
    let ends = slot.until_results(4);
    let whys: Vec<Reason> = ends.iter().map(|end| end.why).collect();
    assert_eq!(whys, [Reason::Done, Reason::Done, Reason::Exit, Reason::Exit]);
    assert!(ends[3].tail.contains("standard output"), "{}", ends[3].tail);
    let read = |path: &str| fs::read_to_string(work.path().join(path)).unwrap();
    assert_eq!(read("res/n1/a.txt"), "out\n");
    assert_eq!(read("res/n1/.._.._x_y.txt"), "out\n");
    assert_eq!(read("1.err"), "err\n");
}

#[test]
fn quiet_tasks_leave_few_files() {
    let work = tempdir().unwrap();
    let mut settings = settings(shell(work.path(), "echo $APPORTION_TASK_ID"));
    settings.start.lanes = 2;
    let mut slot = Slot::start(&settings);
    for start in (0..200).step_by(40) {
        slot.give(start..start + 40);
        slot.until_results(usize::try_from(start).unwrap() + 40);
    }
    for task in [0, 77, 199] {
        assert_eq!(slot.output(task, Channel::Out), format!("{task}\n"));
    }
    let files = fs::read_dir(&slot.folder).unwrap().count();
    assert!(files <= 15, "{files} files");
    let tasks: std::collections::BTreeSet<u64> =
        slot.results.values().map(|end| end.task.task).collect();
    assert_eq!(tasks, (0..200).collect());
}

#[test]
fn an_emptied_error_stream_harms_its_task_only() {
    let work = tempdir().unwrap();
    let text = "echo first >&2; echo second > /dev/stderr; exit 1";
    let mut slot = Slot::start(&settings(shell(work.path(), text)));
    assert_eq!(slot.run(1).tail, "second\n");
    assert_eq!(slot.run(2).tail, "second\n");
    assert_eq!(slot.output(1, Channel::Err), "second\n");
}

/// The disk is a file system of 64 KB, which has to be mounted.
#[test]
fn a_full_disk_begins_nothing_and_loses_no_result() {
    let scratch = tempdir().unwrap();
    let disk = scratch.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
        .arg(&disk)
        .output();
    if !mounted.is_ok_and(|mounted| mounted.status.success()) {
        slot::say("left out: this user cannot mount");
        return;
    }
    let folder = disk.join("slot");
    fs::create_dir(&folder).unwrap();
    let text = "head -c 9000 /dev/zero; echo $APPORTION_TASK_ID; :";
    let mut settings = settings(shell(scratch.path(), text));
    settings.start.linger_ms = 4_000;
    let mut slot = Slot::start_in(&folder, &settings, &[]);
    slot.give(1..=300);
    let last = slot.until_gone();
    let unmounted = std::process::Command::new("umount").arg("-l").arg(&disk).status();
    assert!(unmounted.unwrap().success());
    assert_eq!(slot.results.len(), 300);
    let returned = slot.results.values().filter(|end| end.why == Reason::Returned).count();
    assert!(0 < returned && returned < 300, "{returned} returned");
    assert!(last.text.unwrap().contains("full"));
}

/// A task in a pipe ends as elsewhere, and no signal is ignored or held back.
#[test]
fn signals_have_their_usual_effect_in_tasks() {
    let work = tempdir().unwrap();
    let text = "grep -E 'Sig(Ign|Blk)' /proc/self/status; yes | head -1";
    let mut slot = Slot::start(&settings(shell(work.path(), text)));
    assert_eq!(slot.run(1).why, Reason::Done);
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().to_owned();
        // Signals above 31 are reserved for the C library.
        u64::from_str_radix(line.trim(), 16).unwrap() & 0x7fff_ffff
    };
    let said = slot.output(1, Channel::Out);
    // A signal that this test inherited as ignored is ignored in the task, except SIGPIPE, number
    // 13.
    assert_eq!(ignored(&said), ignored(&own) & !(1 << 12), "{said}");
    assert!(said.contains("SigBlk:\t0000000000000000\n") && said.ends_with("y\n"), "{said}");
}

#[test]
fn a_repeated_attempt_begins_once() {
    let work = tempdir().unwrap();
    let text = "mkdir $APPORTION_TASK_ID && sleep 1";
    let mut slot = Slot::start(&settings(shell(work.path(), text)));
    slot.give([1, 2]);
    slot.until(|report| report.running.len() == 1);
    slot.give([1, 2]);
    slot.reconnect();
    slot.give([2, 1]);
    slot.acks = false;
    let ends = slot.until_results(2);
    assert!(ends.iter().all(|end| end.why == Reason::Done), "{ends:?}");
    // Unacknowledged results are reported to each agent.
    slot.reconnect();
    slot.last = None;
    slot.results.clear();
    slot.until_results(2);
    slot.give([1, 2]);
    let older = slot.order;
    slot.order = 0;
    slot.give([3]);
    slot.order = older;
    slot.give([]);
    let report = slot.until(|report| report.seen_order == older + 1);
    assert!(report.held.is_empty() && report.running.is_empty(), "{report:?}");
}

#[test]
fn what_a_task_leaves_behind_ends_before_the_next_begins() {
    let work = tempdir().unwrap();
    let text = r#"if [ $APPORTION_TASK_ID = 1 ]; then
        sleep 5001 &
        setsid sleep 5002 &
        (setsid sh -c 'trap "" TERM HUP; sleep 5003 & wait' &)
        (cd /; env -i setsid sleep 5004 &)
        exit 0
      fi
      ps -eo comm,args | grep '^sleep' > ps"#;
    let mut slot = Slot::start(&settings(shell(work.path(), text)));
    slot.give([1, 2]);
    let ends = slot.until_results(2);
    assert_eq!(ends[0].why, Reason::Done);
    let left = fs::read_to_string(work.path().join("ps")).unwrap();
    assert!(!left.contains("sleep 500"), "{left}");
}

#[test]
fn an_adopted_process_that_ends_is_waited_for() {
    let work = tempdir().unwrap();
    // The process stays in the group of its task, which goes on.
    let text = "(sh -c 'sleep 0.2; touch ended' &); while :; do sleep 0.05; done";
    let mut slot = Slot::start(&settings(shell(work.path(), text)));
    slot.give([1]);
    let start = Instant::now();
    while !work.path().join("ended").exists() {
        assert!(start.elapsed() < slot::PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    let own = i32::try_from(slot.process.id()).unwrap();
    let is_zombie = |stat: &procfs::process::Stat| stat.ppid == own && stat.state == 'Z';
    let is_any_left = || {
        let mut all = procfs::process::all_processes().unwrap().flatten();
        all.any(|process| process.stat().is_ok_and(|stat| is_zombie(&stat)))
    };
    // A process that just ended is a zombie for a moment.
    while is_any_left() {
        assert!(start.elapsed() < slot::PATIENCE, "a zombie is left");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The last look may have been before its end.
    std::thread::sleep(Duration::from_millis(300));
    assert!(!is_any_left());
    slot.order(stop(Some(100), StopReason::Cancelled));
    slot.until_gone();
}

#[test]
fn lanes_run_beside_each_other_and_sweep_their_own() {
    let work = tempdir().unwrap();
    let text = r"(setsid sleep 6001 &) ; touch here.$APPORTION_TASK_ID
      while [ ! -e go.$APPORTION_TASK_ID ]; do sleep 0.05; done";
    let mut settings = settings(shell(work.path(), text));
    settings.start.lanes = 2;
    let mut slot = Slot::start(&settings);
    slot.give([1, 2]);
    slot.until(|report| report.running.len() == 2);
    let sleepers = |task: u64| {
        let marked = marked(format!("APPORTION_TASK_ID={task}\0").as_bytes());
        let is_ours = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let folder = work.path().to_str().unwrap().as_bytes();
            environment.windows(folder.len()).any(|window| window == folder)
        };
        marked.into_iter().filter(is_ours).count()
    };
    let start = Instant::now();
    while sleepers(1) < 2 || sleepers(2) < 2 {
        assert!(start.elapsed() < slot::PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::write(work.path().join("go.1"), "").unwrap();
    slot.until_results(1);
    assert_eq!(sleepers(1), 0);
    assert!(sleepers(2) >= 2, "the neighbour lost something");
    fs::write(work.path().join("go.2"), "").unwrap();
    slot.until_results(2);
    assert_eq!(sleepers(2), 0);
}

/// A slot with two running tasks and a waiting task. The first task saves on the request to end,
/// the second ignores it. The grace is 1.5 s.
fn with_a_deaf_task(work: &Path) -> Slot {
    let text = r"trap 'echo saved >> saved; exit 0' TERM
      [ $APPORTION_TASK_ID = 2 ] && trap '' TERM
      touch here.$APPORTION_TASK_ID; while :; do sleep 0.05; done";
    let mut settings = settings(shell(work, text));
    settings.start.lanes = 2;
    settings.spec.grace_ms = 1_500;
    let mut slot = Slot::start(&settings);
    slot.give([1, 2, 3]);
    let start = Instant::now();
    while !work.join("here.1").exists() || !work.join("here.2").exists() {
        assert!(start.elapsed() < slot::PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    slot
}

#[test]
fn a_stop_asks_and_then_kills() {
    let work = tempdir().unwrap();
    let mut slot = with_a_deaf_task(work.path());
    let start = Instant::now();
    slot.order(stop(Some(1_500), StopReason::Preempted));
    let last = slot.until_gone();
    assert_eq!(last.end, Some(SlotEnd::Stopped));
    let ends: Vec<_> =
        slot.results.values().map(|end| (end.task.task, end.why, end.exit, end.signal)).collect();
    assert_eq!(
        ends,
        [
            (3, Reason::Returned, None, None),
            (1, Reason::Preempted, Some(0), None),
            (2, Reason::Preempted, None, Some(9)),
        ]
    );
    assert!(work.path().join("saved").exists());
    assert!(start.elapsed() >= Duration::from_millis(1_500));
}

/// Ends the slot as systemd stops the unit of a slot, and as a machine goes down.
#[test]
fn a_signal_from_outside_asks_tasks_and_then_kills() {
    let work = tempdir().unwrap();
    let mut slot = with_a_deaf_task(work.path());
    let start = Instant::now();
    let pid = slot.process.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let last = slot.until_gone();
    assert_eq!(last.end, Some(SlotEnd::Stopped));
    assert!(last.text.is_some_and(|text| text.contains("SIGTERM")));
    let ends: Vec<_> =
        slot.results.values().map(|end| (end.task.task, end.why, end.exit, end.signal)).collect();
    assert_eq!(
        ends,
        [
            (3, Reason::Returned, None, None),
            (1, Reason::VariedOff, Some(0), None),
            (2, Reason::VariedOff, None, Some(9)),
        ]
    );
    assert_eq!(fs::read_to_string(work.path().join("saved")).unwrap(), "saved\n");
    assert!(start.elapsed() >= Duration::from_millis(1_500));
    // The next agent reads the same.
    assert_eq!(report_dead(&slot.folder).end, Some(SlotEnd::Stopped));
}

#[test]
fn a_drained_slot_lets_its_task_end() {
    let work = tempdir().unwrap();
    let mut slot = Slot::start(&settings(shell(work.path(), "sleep 1; exit 4")));
    slot.give([1, 2]);
    slot.until(|report| report.running.len() == 1);
    slot.order(stop(None, StopReason::Drained));
    slot.until_gone();
    let ends: Vec<_> = slot.results.values().map(|end| (end.task.task, end.why)).collect();
    assert_eq!(ends, [(2, Reason::Returned), (1, Reason::Exit)]);
}

#[test]
fn tasks_are_cancelled_recalled_and_signalled() {
    let work = tempdir().unwrap();
    let text = "trap 'echo usr1 >> got' USR1; touch here; while :; do sleep 0.05; done";
    let mut spec = shell(work.path(), text);
    spec.grace_ms = 500;
    let mut slot = Slot::start(&settings(spec));
    slot.give([1, 2, 3]);
    let start = Instant::now();
    while !work.path().join("here").exists() {
        assert!(start.elapsed() < slot::PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    let signals = vec![TaskSignal { task: id(1), signal: 10 }];
    slot.order(SlotOrder { signals, recall: vec![id(2)], ..SlotOrder::default() });
    while !work.path().join("got").exists() {
        assert!(start.elapsed() < slot::PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    slot.order(SlotOrder { cancel: vec![id(1), id(3)], ..SlotOrder::default() });
    let ends = slot.until_results(3);
    let ends: Vec<_> = ends.iter().map(|end| (end.task.task, end.why)).collect();
    assert_eq!(ends, [(2, Reason::Returned), (3, Reason::Cancelled), (1, Reason::Cancelled)]);
    slot.until(|report| report.state == SlotStage::Idle);
}

#[test]
fn a_time_limit_ends_a_task() {
    let work = tempdir().unwrap();
    let mut spec = shell(work.path(), "sleep 600");
    spec.time_limit_ms = Some(300);
    let mut slot = Slot::start(&settings(spec));
    let end = slot.run(1);
    assert_eq!((end.why, end.signal), (Reason::TimeLimit, Some(15)));
    assert!(end.ms >= 300, "{end:?}");
}

#[test]
fn checkpoints_are_asked_for_and_confirmed() {
    let work = tempdir().unwrap();
    let text = format!(
        "trap '{} checkpoint' USR1; while :; do sleep 0.05; done",
        env!("CARGO_BIN_EXE_apportion")
    );
    let mut spec = shell(work.path(), &text);
    spec.checkpoint = Some(Checkpoint { signal: 10, every_ms: Some(1_000), young: None });
    let mut slot = Slot::start(&settings(spec));
    slot.give([1]);

    slot.until(|report| report.running.iter().any(|task| task.has_saved));
    let report = slot.until(|report| {
        report.running.iter().any(|task| task.ms > 3_000 && task.unsaved_ms < task.ms)
    });
    assert!(report.running[0].unsaved_ms < report.running[0].ms);
    slot.order(stop(Some(20_000), StopReason::Preempted));
    slot.until_gone();
    let end = &slot.results[&1];
    assert_eq!((end.why, end.has_saved), (Reason::Preempted, true));
}

/// A real program counts the signals: a checkpoint that takes 0.2 s, with interruptions 10 s apart, has a period
/// of 2 s by the formula, and of 6.4 s if a busy machine makes it 2 s. The shortest period is 1 s.
#[test]
fn checkpoints_follow_young_once_their_cost_is_known() {
    let work = tempdir().unwrap();
    let text = format!(
        "trap 'date +%s%3N >> signals; sleep 0.2; {} checkpoint' USR1; while :; do sleep 0.02; done",
        env!("CARGO_BIN_EXE_apportion")
    );
    let mut spec = shell(work.path(), &text);
    let young = YoungBounds { least_ms: 1_000, most_ms: 60_000 };
    spec.checkpoint = Some(Checkpoint { signal: 10, every_ms: None, young: Some(young) });
    let mut settings = settings(spec);
    settings.start.interruption_ms = Some(10_000);
    let mut slot = Slot::start(&settings);
    slot.give([1]);
    slot.until(|report| report.running.iter().any(|task| task.ms > 15_000));
    let text = fs::read_to_string(work.path().join("signals")).unwrap();
    let times: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((1..=7).contains(&pauses.len()), "{pauses:?}");
    assert!(pauses.iter().all(|pause| (1_900..9_000).contains(pause)), "{pauses:?}");
    slot.order(stop(Some(1_000), StopReason::Preempted));
    slot.until_gone();
}

#[test]
fn a_slot_without_work_ends_by_itself() {
    let work = tempdir().unwrap();
    let mut spec = shell(work.path(), "true");
    spec.epilogue = Some(Command::Shell("touch epilogue".to_owned()));
    let mut settings = settings(spec);
    settings.start.linger_ms = 4_000;
    let mut slot = Slot::start(&settings);
    slot.give([1]);
    let last = slot.until_gone();
    assert_eq!((last.end, slot.results.len()), (Some(SlotEnd::Idle), 1));
    assert!(work.path().join("epilogue").exists());
    let dead = report_dead(&slot.folder);
    assert_eq!((dead.end, dead.results.len()), (Some(SlotEnd::Idle), 1));
}

#[test]
fn a_prologue_comes_before_the_first_task() {
    let work = tempdir().unwrap();
    let mut spec = shell(work.path(), "cat fetched");
    spec.prologue = Some(Command::Shell("sleep 0.3; echo model > fetched".to_owned()));
    let mut slot = Slot::start(&settings(spec.clone()));
    let report = slot.until(|report| report.state == SlotStage::Preparing);
    assert_eq!(report.want, 0);
    assert_eq!(slot.run(1).why, Reason::Done);
    assert!(slot.last.as_ref().unwrap().prepared_ms.is_some());

    let text = "while [ ! -e go ]; do sleep 0.05; done; echo no model >&2; exit 3";
    spec.prologue = Some(Command::Shell(text.to_owned()));
    let mut slot = Slot::start(&settings(spec));
    slot.until(|report| report.state == SlotStage::Preparing);
    fs::write(work.path().join("go"), "").unwrap();
    let last = slot.until_gone();
    assert_eq!(last.end, Some(SlotEnd::Prologue));
    assert!(last.text.unwrap().contains("no model"));
}

#[test]
fn an_expired_lease_ends_everything() {
    let work = tempdir().unwrap();
    let mut spec =
        shell(work.path(), "trap '' TERM; (setsid sleep 7001 &); sleep 7002; sleep 7003");
    spec.grace_ms = 300;
    let mut settings = settings(spec);
    settings.lease_until_ms = since_boot_ms() + 5_000;
    let mut slot = Slot::start(&settings);
    // Only the agent extends the lease, and the test does not.
    let task =
        apportion::orchestrator::wire::NewTask { task: id(1), spec: 5, param: None, gang: None };
    let order = SlotOrder { share: 7, order: 1, tasks: vec![task], ..SlotOrder::default() };
    slot.send(&ToSlot::Order(Box::new(apportion::slot::wire::LeasedOrder {
        lease_until_ms: 0,
        order: Some(order),
        specs: std::collections::BTreeMap::new(),
    })));
    let last = slot.until_gone();
    assert_eq!(last.end, Some(SlotEnd::Unheard));
    assert_eq!(slot.results[&1].why, Reason::Lost);
    assert_eq!(marked(slot.folder.to_str().unwrap().as_bytes()), Vec::<u32>::new());
}

#[test]
fn a_killed_slot_is_told_from_its_journal() {
    let work = tempdir().unwrap();
    let text = "[ $APPORTION_TASK_ID = 1 ] || sleep 600";
    let mut slot = Slot::start(&settings(shell(work.path(), text)));
    slot.give([1, 2, 3]);
    slot.until(|report| report.running.iter().any(|task| task.task == id(2)));
    slot.acks = false;
    slot.kill();
    let dead = report_dead(&slot.folder);
    assert_eq!((dead.state, dead.end), (SlotStage::Gone, Some(SlotEnd::Died)));
    let ends: Vec<_> = dead.results.iter().map(|end| (end.number, end.task, end.why)).collect();
    assert_eq!(
        ends,
        [(1, id(1), Reason::Done), (2, id(2), Reason::Lost), (3, id(3), Reason::Returned)]
    );
    assert_eq!(report_dead(&slot.folder), dead, "the same each time");
    // A slot runs once: nothing begins again in its folder.
    let again = slot::command(&slot.folder).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("a slot runs once"));
}

#[test]
fn a_hog_is_ended_and_its_neighbour_is_not() {
    let work = tempdir().unwrap();
    let text = r#"if [ $APPORTION_TASK_ID = 1 ]; then
        exec perl -e '$n = 600 << 20; $x = "x" x $n; sleep 60'
      fi
      sleep 4"#;
    let mut settings = settings(shell(work.path(), text));
    settings.spec.environment.insert("PATH".to_owned(), std::env::var("PATH").unwrap());
    settings.start.lanes = 2;
    let mut slot = Slot::start(&settings);
    slot.give([1, 2]);
    let ends = slot.until_results(2);
    assert_eq!((ends[0].task, ends[0].why, ends[0].signal), (id(1), Reason::Memory, Some(9)));
    assert!(ends[0].peak_mb >= 512, "{:?}", ends[0]);
    assert_eq!((ends[1].task, ends[1].why), (id(2), Reason::Done));
    slot.until(|report| report.state == SlotStage::Idle);
}

#[test]
fn a_slot_becomes_its_user_for_good() {
    if !slot::is_root() {
        slot::say("left out, not root: there is no other user to become");
        return;
    }
    let work = tempdir().unwrap();
    fs::set_permissions(work.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let folder = work.path().join("slot");
    fs::create_dir(&folder).unwrap();
    let UserIdentity { uid, gid, .. } = stranger();
    let text = "id -u; id -g; id -G; grep -E 'CapEff|NoNewPrivs' /proc/self/status; umask; ls -l /proc/self/fd; cat /proc/self/oom_score_adj";
    let settings = settings(shell(work.path(), text));
    std::os::unix::fs::chown(&folder, Some(uid), Some(gid)).unwrap();
    let who = stranger().to_string();
    let mut slot = Slot::start_in(&folder, &settings, &["--become", &who]);
    assert_eq!(slot.run(1).why, Reason::Done);
    let said = slot.output(1, Channel::Out);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(&lines[..3], ["54321", "54322", "54322 54323"], "{said}");
    assert!(
        said.contains("CapEff:\t0000000000000000") && said.contains("NoNewPrivs:\t1"),
        "{said}"
    );
    assert!(lines.contains(&"0022") && lines.contains(&"300"), "{said}");
    // 0, 1, 2 and the folder that `ls` reads.
    assert_eq!(lines.iter().filter(|line| line.contains(" -> ")).count(), 4, "{said}");
    let refused = slot::command(&folder).args(["--become", "0:0:"]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("user 0 runs no slot"));
}
