//! Logs as sites write them, and how their rows become requests.

use super::*;
use crate::model::{Mebibytes, Quantum, Steps};

fn note_rows(log: &JobLog, what: &str) -> (u64, Vec<usize>) {
    let note = log.notes.iter().find(|note| note.what.starts_with(what));
    note.map(|note| (note.rows, note.lines.clone())).unwrap_or_default()
}

const DIRTY: &str = "\u{feff}; Version: 2.2\r\n\
;  MaxNodes: 4\r\n; MaxProcs: 16 (a comment)\r\n; \r\n\
id submit wait run\r\n\
1 100 5 60 2 -1 -1 4 120 2048 1 7 1 1 3 1 -1 -1\r\n\
\r\n\
2 90 0 -1359980917 1 -1 -1 1 60 -1 1 7 1 1 3 1 -1 -1\r\n\
3 80 -1 -1 -1 -1 -1 2 60 -1 5 8 1 1 3 1 -1 -1\r\n\
4 110 1 0 1 -1 -1 1 60 -1 1 8 1 1 3 1 -1 -1\r\n\
5 110 1 0 1 -1 -1 1 60 -1 5 8 1 1 3 1 -1 -1\r\n\
6 -1 1 10 1 -1 -1 1 60 -1 1 8 1 1 3 1 -1 -1\r\n\
7 95.75 1 90.5 3 -1 -1 -1 60 -1 1 -1 1 1 -1 1 2&3 -1 extra columns\r\n\
8 120 1 30 -1\r\n\
9 130\r\n";

#[test]
fn dirty_rows_are_counted_and_left_out() {
    let log = swf::parse("dirty.swf", DIRTY).unwrap();
    assert_eq!(log.header, LogHeader { nodes: Some(4), processors: Some(16) });
    let numbers: Vec<&str> = log.rows.iter().map(|row| row.number.as_str()).collect();
    assert_eq!(numbers, ["7", "1", "4", "8"], "by submission");
    for (what, rows, lines) in [
        ("not a row", 1, vec![5]),
        ("too few", 1, vec![15]),
        ("negative run", 1, vec![8]),
        ("no run time", 2, vec![9, 11]),
        ("no time of submission", 1, vec![12]),
        ("no number of processors", 1, vec![14]),
        ("ran longer", 1, vec![13]),
        ("no requested time", 1, vec![14]),
    ] {
        assert_eq!(note_rows(&log, what), (rows, lines), "{what}");
    }
    let [seventh, first, fourth, _] = &log.rows[..] else { panic!("{log:?}") };
    assert_eq!((first.processors, first.runs, first.declared), (4, 60_000, 120_000));
    assert_eq!(first.memory, Some(LogMemory { amount: 2048, basis: None }));
    assert_eq!((first.user.as_str(), first.queue.as_str()), ("7", "3"));
    assert_eq!(fourth.runs, 1000, "it completed within a second");
    assert_eq!((seventh.submitted, seventh.runs, seventh.declared), (95, 90_000, 90_000));
    assert_eq!((seventh.user.as_str(), seventh.memory), ("-", None));
}

#[test]
fn a_file_of_another_kind_is_refused_with_its_line() {
    for (text, expected) in [
        ("", "x has no row"),
        ("; only a comment\n", "x has no row"),
        ("\n\nJobID|User\n1|ann\n", "x, line 3: this is no row of numbers; give a file in the"),
        ("1 2 3\n", "x, line 1: a row needs 18 numbers, at least 5"),
        ("1 0 0 -1 1 -1 -1 1 60\n", "x has 1 rows, and none of them is a job that ran"),
    ] {
        let error = swf::parse("x", text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn requests_of_nodes_are_read_where_they_stand() {
    let row = |extra: &str| {
        let text = format!("1 0 0 60 8 -1 -1 8 60 4096 1 7 1 1 3 1 -1 -1 {extra}");
        let log = swf::parse("x", &text).unwrap();
        let has_properties = note_rows(&log, "asked for properties").0 == 1;
        (log.rows[0].split, log.rows[0].queue.to_string(), has_properties)
    };
    let split = |nodes, processors| Some(NodeSplit { nodes, processors });
    assert_eq!(row("{1,1} long 2:ppn=4"), (split(2, 4), "long".to_owned(), false));
    assert_eq!(row("{1,1} q_1d 1:ppn=8:x86:cl_a#excl"), (split(1, 8), "q_1d".to_owned(), true));
    assert_eq!(row("{1,1} q 1:ppn=1+3:ppn=2"), (split(4, 2), "q".to_owned(), false));
    assert_eq!(row("DAG-1 1"), (None, "3".to_owned(), false));
    assert_eq!(row("{1,1} q 0:ppn=0"), (None, "3".to_owned(), false));
}

const SACCT: &str = "JobID|User|Partition|Submit|ElapsedRaw|TimelimitRaw|ReqCPUS|NNodes|ReqMem|State\n\
11|ann|short|2026-01-02T00:00:10|60|2|4|1|16G|COMPLETED\n\
11.batch||short|2026-01-02T00:00:10|60||4|1||COMPLETED\n\
12_3|bob|long|2026-01-02T00:00:00|3600|120|16|2|4Gn|TIMEOUT\n\
13|ann|short|2026-01-02T00:00:20|0|2|4|1|16G|CANCELLED by 0\n\
14|ann|short|2026-01-02T00:00:20|5|2|4|1|16G|RUNNING\n\
15|ann|short|Unknown|5|2|4|1|16G|COMPLETED\n\
16|ann|short\n\
17|ann|short|2026-01-02T00:00:30|5|UNLIMITED|2|1|1500Mc|FAILED\n";

#[test]
fn sacct_is_read_by_the_names_of_its_columns() {
    let log = sacct::parse("jobs.txt", SACCT).unwrap();
    let rows: Vec<_> = log
        .rows
        .iter()
        .map(|row| (row.number.as_str(), row.user.as_str(), row.queue.as_str(), row.declared))
        .collect();
    assert_eq!(
        rows,
        [
            ("12_3", "bob", "long", 7_200_000),
            ("11", "ann", "short", 120_000),
            ("17", "ann", "short", 5_000)
        ]
    );
    assert_eq!(log.rows[1].submitted - log.rows[0].submitted, 10);
    assert_eq!(log.rows[0].split, Some(NodeSplit { nodes: 2, processors: 8 }));
    let memory = |row: usize| log.rows[row].memory.unwrap();
    assert_eq!(memory(0), LogMemory { amount: 4 << 20, basis: Some(MemoryBasis::Node) });
    assert_eq!(memory(1), LogMemory { amount: 16 << 20, basis: Some(MemoryBasis::Job) });
    assert_eq!(memory(2), LogMemory { amount: 1500 << 10, basis: Some(MemoryBasis::Processor) });
    for (what, line) in [
        ("no run time", 5),
        ("not ended", 6),
        ("no time of submission", 7),
        ("too few columns", 8),
        ("no requested time", 9),
    ] {
        assert_eq!(note_rows(&log, what), (1, vec![line]), "{what}");
    }
    let old = "User|JobID|Submit|Elapsed|Timelimit|AllocCPUS\r\n\
               eva|1|2026-01-02T00:00:10|1-00:00:05|02:30|3\r\n";
    let log = sacct::parse("old.txt", old).unwrap();
    assert_eq!((log.rows[0].runs, log.rows[0].declared), (86_405_000, 86_405_000));
    assert_eq!((log.rows[0].processors, log.rows[0].memory), (3, None));
    let error = sacct::parse("x", "JobID|User|Submit\n1|a|b\n").unwrap_err().to_string();
    assert!(error.starts_with("x, line 1: there is no column ElapsedRaw; write"), "{error}");
    let error = sacct::parse("x", "\n").unwrap_err().to_string();
    assert!(error.starts_with("x is empty; write it with `sacct"), "{error}");
}

/// Options as on the command line: a size for each node.
fn options(memory: &[&str], processors: &[&str]) -> NodeOptions {
    let number = |text: &str| text.parse().map_err(|_| "no number".to_owned());
    NodeOptions {
        memory: memory
            .iter()
            .map(|text| node_value(text, |gb| number(gb).map(Mebibytes::from_gib)).unwrap())
            .collect(),
        processors: processors.iter().map(|text| node_value(text, number).unwrap()).collect(),
    }
}

fn nodes(
    options: &NodeOptions,
    header: LogHeader,
    needs_memory: bool,
) -> Result<Vec<LogNode>, JobLogError> {
    NodeSources { topology: None, options, machines: None, header, needs_memory }.nodes()
}

#[test]
fn nodes_come_from_options_or_the_header() {
    let header = LogHeader { nodes: Some(12), processors: Some(48) };
    let named = options(&["a[1-2]=64", "b1=128"], &["8", "b1=16"]);
    let found = nodes(&named, header, true).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|node| (node.name.as_str(), node.memory.unwrap().0 >> 10, node.processors.unwrap()))
        .collect();
    assert_eq!(found, [("a1", 64, 8), ("a2", 64, 8), ("b1", 128, 16)]);

    let counted = nodes(&options(&["32"], &[]), header, true).unwrap();
    assert_eq!(
        (counted.len(), counted[0].name.as_str(), counted[11].name.as_str()),
        (12, "n01", "n12")
    );
    assert_eq!(counted[0].processors, Some(4));
    let nominal = nodes(&NodeOptions::default(), header, false).unwrap();
    assert_eq!(nominal[0].memory, Some(Mebibytes::from_gib(4)));
    let by_processors = LogHeader { nodes: None, processors: Some(50) };
    assert_eq!(nodes(&options(&["32"], &["8"]), by_processors, true).unwrap().len(), 7);

    let error = nodes(&NodeOptions::default(), header, true).unwrap_err().to_string();
    assert_eq!(
        error,
        "the memory of n[01-12] is not known; add --node-memory 128GB, or --size-by processors if \
         memory is of no concern"
    );
    let error = nodes(&options(&["32"], &[]), LogHeader::default(), true).unwrap_err().to_string();
    assert!(error.starts_with("neither the log nor an option says which nodes"), "{error}");
}

#[test]
fn machines_are_read_in_the_form_of_alea() {
    let text = "0\tzewura\t2\t80\t1\t529426432\n\n1\tzegox\t10\t12\t1\t94035968\t30\n";
    let found = parse_machines("m", text).unwrap();
    assert_eq!(found.len(), 12);
    assert_eq!((found[1].name.as_str(), found[11].name.as_str()), ("zewura2", "zegox10"));
    assert_eq!((found[2].memory, found[2].processors), (Some(Mebibytes(91_832)), Some(12)));
    let error = parse_machines("m", "0 a 1 2 3 4000\n0 a x 2 3 4\n").unwrap_err().to_string();
    assert!(error.starts_with("m, line 2: `0 a x 2 3 4` describes no machines; write"), "{error}");
}

fn cluster(options: &NodeOptions) -> ReplayCluster {
    let quantum = Quantum::new(Mebibytes::from_gib(1)).unwrap();
    let nodes = nodes(options, LogHeader::default(), true).unwrap();
    ReplayCluster::new(None, quantum, &nodes, &ClassRules::default()).unwrap()
}

/// Jobs of the processors and of KB of memory given, as processes and quanta of each.
fn sizes(cluster: &ReplayCluster, rows: &[(u64, i64)], rules: SizeRules) -> Vec<(u64, u64, bool)> {
    let row = |(processors, memory): &(u64, i64)| {
        format!("1 0 0 60 {processors} -1 -1 {processors} 60 {memory} 1 7 1 1 3 1 -1 -1\n")
    };
    let log = swf::parse("x", &rows.iter().map(row).collect::<String>()).unwrap();
    let jobs = requests(&log, cluster, rules).unwrap().jobs;
    jobs.iter().map(|job| (job.processes, job.quanta, job.never.is_none())).collect()
}

#[test]
fn a_job_becomes_processes_of_its_memory_or_its_part_of_a_node() {
    const GB: i64 = 1 << 20;
    let small = cluster(&options(&["n[1-4]=64"], &["16"]));
    let rows =
        [(1, -1), (1, 8 * GB), (4, GB), (16, -1), (20, -1), (64, -1), (65, -1), (1, 65 * GB)];
    assert_eq!(
        sizes(&small, &rows, SizeRules::default()),
        [
            (1, 4, true),
            (1, 8, true),
            (1, 16, true),
            (1, 64, true),
            (2, 40, true),
            (4, 64, true),
            (5, 52, false),
            (1, 65, false),
        ]
    );
    let memory = SizeRules { by: SizeBy::Memory, ..SizeRules::default() };
    assert_eq!(sizes(&small, &[(4, GB), (4, -1)], memory), [(1, 4, true), (1, 16, true)]);
    let part = SizeRules { by: SizeBy::Processors, ..SizeRules::default() };
    assert_eq!(sizes(&small, &[(4, 8 * GB)], part), [(1, 16, true)]);
    let node = SizeRules { basis: Some(MemoryBasis::Node), ..memory };
    assert_eq!(sizes(&small, &[(4, 8 * GB)], node), [(1, 8, true)]);
    // The node with the least memory for a processor decides, so that whole nodes stay whole.
    let mixed = cluster(&options(&["a1=64", "b1=256"], &["a1=8", "b1=64"]));
    assert_eq!(
        sizes(&mixed, &[(8, -1), (64, -1)], SizeRules::default()),
        [(1, 32, true), (1, 256, true)]
    );
    // Nothing says how many processors a node has: memory decides how many nodes a job needs.
    let unknown = cluster(&options(&["n[1-4]=64"], &[]));
    assert_eq!(sizes(&unknown, &[(8, 16 * GB)], SizeRules::default()), [(2, 64, true)]);
}

#[test]
fn memory_in_bytes_is_recognised() {
    let cluster = cluster(&options(&["n1=64"], &["8"]));
    let bytes = 4_i64 << 30;
    let one = [(1, bytes)];
    assert_eq!(
        sizes(&cluster, &one, SizeRules { by: SizeBy::Memory, ..SizeRules::default() }),
        [(1, 4, true)]
    );
    let kilobytes = SizeRules { unit: Some(MemoryUnit::Kilobytes), ..SizeRules::default() };
    assert_eq!(sizes(&cluster, &one, kilobytes), [(1, 4096, false)]);
}

/// A stream of jobs of three users that a small cluster cannot serve at once.
fn stream() -> String {
    let row = |number: u64| {
        let (processors, runs) = (1 + number * 7 % 12, 600 + number * 977 % 7_000);
        let user = 1 + number % 3;
        format!(
            "{number} {} 0 {runs} {processors} -1 -1 {processors} {} -1 1 {user} 1 1 1 1 -1 -1\n",
            number * 211,
            runs * 3,
        )
    };
    (0..80).map(row).collect()
}

#[test]
fn figures_are_those_of_a_second_count() {
    let cluster = cluster(&options(&["n[1-3]=16"], &["8"]));
    let log = swf::parse("x", &stream()).unwrap();
    let jobs = requests(&log, &cluster, SizeRules::default()).unwrap().jobs;
    let figures = replay(&cluster, &jobs, &ReplayPolicy::ALL, &Steps::default());
    for (policy, figures) in ReplayPolicy::ALL.into_iter().zip(&figures.policies) {
        let runs = policy.play(&cluster, &jobs, &Steps::default()).runs;
        assert_eq!((figures.policy, figures.jobs), (policy.word(), 80), "{policy:?}");
        let mut waits: Vec<u64> =
            runs.iter().map(|run| run.start - jobs[run.job].submitted).collect();
        waits.sort_unstable();
        let sum: u64 = waits.iter().sum();
        assert!((figures.wait_ms.mean * 80..(figures.wait_ms.mean + 1) * 80).contains(&sum));
        let (median, p95, max) = (waits[39], waits[75], waits[79]);
        let spread = figures.wait_ms;
        assert_eq!((spread.median, spread.p95, spread.max), (median, p95, max), "{policy:?}");
        // Second by second: what is held, and on how many nodes too much.
        let mut held = 0;
        for second in 0..=figures.makespan_ms.div_euclid(1000) {
            let now = second * 1000;
            let mut full = [0; 3];
            for run in runs.iter().filter(|run| run.start <= now && now < run.end) {
                for (node, count) in &run.place {
                    full[*node] += count * jobs[run.job].quanta;
                }
            }
            assert!(full.iter().all(|quanta| *quanta <= 16), "{policy:?} at {now}: {full:?}");
            held += full.iter().sum::<u64>();
        }
        let offered = 48 * figures.makespan_ms.div_euclid(1000);
        let utilisation = (held * 1000).div_euclid(offered);
        assert!(utilisation.abs_diff(figures.utilisation_milli) <= 2, "{policy:?}: {utilisation}");
        let users: u64 = figures.users.iter().map(|user| user.jobs).sum();
        assert_eq!((users, figures.users.len()), (80, 3));
        let by_users: u64 = figures.users.iter().map(|user| user.jobs * user.mean_wait_ms).sum();
        assert!(by_users.abs_diff(sum) <= 80 * 3, "{policy:?}");
        assert_eq!(figures.wait_curve_ms.last(), Some(&max));
        assert!(figures.wait_curve_ms.is_sorted());
    }
}

#[test]
fn bounded_slowdown_counts_short_jobs_as_ten_seconds() {
    for (wait, runs, expected) in
        [(0, 1, 1000), (0, 60_000, 1000), (60_000, 60_000, 2000), (99_000, 1_000, 10_000)]
    {
        assert_eq!(bounded_slowdown(wait, runs), expected, "{wait} {runs}");
    }
}

#[test]
fn preempted_jobs_begin_anew_and_their_time_is_lost() {
    let nodes = nodes(&options(&["n[1-2]=8"], &["8"]), LogHeader::default(), true).unwrap();
    let quantum = Quantum::new(Mebibytes::from_gib(1)).unwrap();
    let rules = ClassRules { replayed_as: ReplayedAs::FairShare, ..ClassRules::default() };
    let cluster = ReplayCluster::new(None, quantum, &nodes, &rules).unwrap();
    // Four jobs of user 1 fill both nodes for a day; user 2 comes ten minutes later.
    let row = |(number, at, user): (u64, u64, u64)| {
        format!("{number} {at} 0 86400 4 -1 -1 4 86400 -1 1 {user} 1 1 1 1 -1 -1\n")
    };
    let rows = [(1, 0, 1), (2, 0, 1), (3, 0, 1), (4, 0, 1), (5, 600, 2), (6, 600, 2)];
    let log = swf::parse("x", &rows.map(row).concat()).unwrap();
    let jobs = requests(&log, &cluster, SizeRules::default()).unwrap().jobs;
    let figures = replay(&cluster, &jobs, &[ReplayPolicy::Apportion], &Steps::default());
    let figures = &figures.policies[0];
    assert_eq!((figures.jobs, figures.preempted), (6, 2), "{figures:?}");
    assert!((1_200_000..1_300_000).contains(&figures.lost_ms), "{}", figures.lost_ms);
    assert!(figures.users[1].mean_wait_ms < 60_000, "user 2 waits for a few cycles: {figures:?}");
}

/// Two nodes of 8 GB. A job has a node for the first hour, the next job has both for the second. What
/// is left is 8 GB for an hour.
#[test]
fn endless_work_fills_what_the_jobs_leave_and_delays_none() {
    let nodes = nodes(&options(&["n[1-2]=8"], &["8"]), LogHeader::default(), true).unwrap();
    let quantum = Quantum::new(Mebibytes::from_gib(1)).unwrap();
    let log = "1 0 0 3600 8 -1 -1 8 3600 -1 1 1 1 1 1 1 -1 -1\n\
               2 3600 0 3600 16 -1 -1 16 3600 -1 1 2 1 1 1 1 -1 -1\n";
    let log = swf::parse("x", log).unwrap();
    let figures = |filler: Option<u64>| {
        let filler = filler.map(Mebibytes::from_gib);
        let rules = ClassRules { filler, ..ClassRules::default() };
        let cluster = ReplayCluster::new(None, quantum, &nodes, &rules).unwrap();
        let jobs = requests(&log, &cluster, SizeRules::default()).unwrap().jobs;
        let figures = replay(&cluster, &jobs, &[ReplayPolicy::Apportion], &Steps::default());
        figures.policies[0].clone()
    };
    assert_eq!(figures(None).filled, None);
    // Processes of 4 GB fill the node. A single process of 5 GB fits on it.
    for (gib, processes, least, most) in [(4, 2, 950, 1000), (5, 1, 590, 625)] {
        let full = figures(Some(gib));
        let filled = full.filled.unwrap();
        assert!((least..=most).contains(&filled.filled_milli), "{gib}: {filled:?}");
        assert_eq!(filled.preempted, processes, "{gib}");
        assert!((3_600_000 * processes..3_700_000 * processes).contains(&filled.lost_ms));
        // A process has a cycle to leave.
        assert!(full.wait_ms.max <= figures(None).wait_ms.max + 20_000, "{:?}", full.wait_ms);
    }
}

#[test]
fn jobs_that_fit_no_node_never_run_and_block_nothing() {
    let cluster = cluster(&options(&["n[1-2]=8"], &["8"]));
    let text = "1 0 0 60 1 -1 -1 1 60 9437184 1 1 1 1 1 1 -1 -1\n\
                2 0 0 60 24 -1 -1 24 60 -1 1 1 1 1 1 1 -1 -1\n\
                3 0 0 60 1 -1 -1 1 60 -1 1 2 1 1 1 1 -1 -1\n";
    let kilobytes = SizeRules { unit: Some(MemoryUnit::Kilobytes), ..SizeRules::default() };
    let log = swf::parse("x", text).unwrap();
    let jobs = requests(&log, &cluster, kilobytes).unwrap().jobs;
    let figures = replay(&cluster, &jobs, &ReplayPolicy::ALL, &Steps::default());
    for policy in &figures.policies {
        assert_eq!((policy.jobs, policy.wait_ms.max), (1, 0), "{policy:?}");
        let reasons: Vec<&str> =
            policy.never_ran.iter().map(|never| never.reason.as_str()).collect();
        assert_eq!(
            reasons,
            [
                "a process asks for up to 9 GB, and the largest node has 8 GB",
                "up to 3 processes at once, and the empty cluster has space for 2"
            ],
            "{}",
            policy.policy
        );
    }
}
