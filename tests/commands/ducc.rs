//! The original's configuration, translated: its own test directories, and small files of ours.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::print_stdout, reason = "a test that skips says so")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use apportion::config::ducc::{DuccFiles, Translated, TranslationError, translate};
use apportion::config::{self, Config};
use apportion::model::{ClassPolicy, Mebibytes, PoolIx};
use tempfile::TempDir;

/// Reason to refuse a directory: the code, the line of the file, and a piece of the message.
type Refusal = (&'static str, &'static str, &'static str);

/// Each of the original's test directories: nothing if it loads.
const DIRECTORIES: [(u32, Option<Refusal>); 12] = [
    (1, None),
    (2, None),
    (3, Some(("C007", "ducc.classes:32:", "npA -> npD -> npC -> npA"))),
    (4, Some(("C006", "ducc.classes:36:", "a second nodepool is called `npA`"))),
    (5, Some(("C008", "ducc.classes:34:", "`npC` is part of `npBob`, which is no nodepool"))),
    (6, None),
    (7, Some(("C009", "ducc.classes:67:", "`normal-npE` is in `npBob`, which is no nodepool"))),
    (8, Some(("C006", "ducc.classes:33:", "nodepool `npB` has no node file"))),
    (9, Some(("C017", "ducc.users:21:", "`.normal` is no limit of a user"))),
    (10, Some(("C017", "ducc.users:26:", "`max_allotment.normal` is bob"))),
    (11, None),
    (12, Some(("C017", "ducc.users:21:", "a limit for `notaclass`, which is no class"))),
];

fn in_folder(folder: &Path) -> DuccFiles {
    let existing = |name: &str| Some(folder.join(name)).filter(|path| path.exists());
    DuccFiles {
        classes: folder.join("ducc.classes"),
        nodes: folder.to_owned(),
        users: existing("ducc.users"),
        properties: existing("ducc.properties"),
    }
}

fn loaded(translated: &Translated) -> Config {
    config::parse("apportion.toml", &translated.text)
        .unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn the_originals_test_directories_load_or_are_refused_for_the_right_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/workloads/ducc-config-tests");
    if !root.exists() {
        println!("skipped: there is no {}", root.display());
        return;
    }
    for (number, expected) in DIRECTORIES {
        let folder = root.join(format!("test{number}/resources"));
        match (translate(&in_folder(&folder)), expected) {
            (Ok(translated), None) => {
                let config = loaded(&translated);
                assert_eq!(config.topology.pools.len(), 6, "test{number}");
                let nodes: usize = config.topology.pools.iter().map(|pool| pool.nodes.len()).sum();
                assert_eq!(nodes, 25, "test{number}");
                let classes = config.topology.classes.len();
                assert_eq!(classes, 9, "test{number}: the abstract ones are none");
            }
            (Err(error), Some((code, place, said))) => {
                let told = error.to_string();
                // In 4 the second `npA` was `npE`, which a class needs; in 9 two keys are wrong.
                let problems = if [4, 9].contains(&number) { 2 } else { 1 };
                assert_eq!(told.matches("error[").count(), problems, "{told}");
                for piece in [code, place, said] {
                    assert!(told.contains(piece), "test{number} lacks {piece}:\n{told}");
                }
            }
            (outcome, _) => panic!("test{number}: {outcome:?}"),
        }
    }
    let config = loaded(&translate(&in_folder(&root.join("test11/resources"))).unwrap());
    let class = config.topology.classes.iter().find(|class| class.name == "normal-npB").unwrap();
    assert_eq!(class.users, Some(vec!["user4".into(), "user5".into(), "user6".into()]));
    let depth = |name: &str| {
        let pool = config.topology.pools.iter().position(|pool| pool.name == name).unwrap();
        config.topology.depth_of(PoolIx(pool))
    };
    assert_eq!(["--default--", "npA", "npC", "npD", "npE"].map(depth), [0, 1, 2, 3, 2]);
}

/// Files of a small cluster of the original, with all that has a counterpart.
const CLASSES: &str = "\
# pools
Nodepool main { domain = example.org ; share-quantum 2 }   # the default one
Nodepool fast {
    nodefile fast.nodes
    parent = main; search-order = 7
}
Class base {
  policy = FAIR_SHARE
  nodepool = main
  abstract = true
  debug = fixed
  initialization-cap 0
}
Class normal base { default = true; weight = 30; prediction-fudge 1500; use-prediction false }
Class open base { nodepool = fast
   users = ann bob, eve }
Class fixed { policy FIXED_SHARE ; nodepool main ; max-processes = 4 ; default true }
Class whole { policy RESERVE ; nodepool main ; enforce true }
";
const USERS: &str = "User ann { max-allotment = 64 }\nUser bob { max_allotment.fixed = 3 }\n";
const PROPERTIES: &str = "\
! how it is run
ducc.rm.share.quantum = 15   # GB
ducc.rm.share.quantum = 4
ducc.rm.global_allotment: 360
ducc.rm.prediction.fudge = 10000
ducc.rm.node.stability = 5
ducc.rm.eviction.policy = SHRINK_BY_MACHINE
ducc.agent.node.metrics.publish.rate = 60000
";

fn folder(files: &[(&str, &str)]) -> (TempDir, DuccFiles) {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let files = in_folder(folder.path());
    (folder, files)
}

const NODES: [(&str, &str); 2] = [
    ("ducc.nodes", "n1 # the head\nn2\nimport fast.nodes\nimport more.nodes\n"),
    ("more.nodes", "n3\n\nn5\n"),
];

fn whole_cluster() -> (TempDir, DuccFiles) {
    let files = [
        ("ducc.classes", CLASSES),
        ("ducc.users", USERS),
        ("ducc.properties", PROPERTIES),
        ("fast.nodes", "f1\nf2\n"),
    ];
    folder(&[&files[..], &NODES].concat())
}

#[test]
fn what_has_a_counterpart_is_translated() {
    let (_folder, files) = whole_cluster();
    let translated = translate(&files).unwrap();
    let Config { daemon, topology, .. } = loaded(&translated);
    assert_eq!(daemon.heartbeat_interval.as_secs(), 60);
    assert_eq!(topology.settings.node_stability, 5);
    assert_eq!(topology.allotment_of("ann"), Some(Mebibytes::from_gib(64)));
    assert_eq!(topology.allotment_of("bob"), Some(Mebibytes::from_gib(360)));
    let [main, fast] = topology.pools.as_slice() else { panic!("{:?}", topology.pools) };
    assert_eq!(
        (main.nodes.join(" "), fast.nodes.join(" ")),
        ("n1 n2 n3 n5".into(), "f1 f2".into())
    );
    assert_eq!((main.quantum.memory(), fast.search_order), (Mebibytes::from_gib(2), 7));
    let class = |name: &str| topology.classes.iter().find(|class| class.name == name).unwrap();
    let normal = class("normal");
    assert_eq!((&normal.policy, normal.is_default), (&ClassPolicy::FairShare { weight: 30 }, true));
    assert_eq!((normal.cap_rules.prediction_fudge, normal.cap_rules.prediction), (1500, false));
    assert_eq!(class("open").cap_rules.prediction_fudge, 10_000);
    assert_eq!(class("open").cap_rules.initialization_cap, 1_000_000, "0 turns it off");
    assert_eq!((class("open").pool, class("open").admits("eve")), (PoolIx(1), true));
    assert!(!class("open").admits("tom") && !class("open").is_default);
    assert_eq!((class("fixed").priority, class("whole").priority), (5, 1));
}

#[test]
fn what_has_none_is_left_out_and_said() {
    let (_folder, files) = whole_cluster();
    let translated = translate(&files).unwrap();
    for left_out in [
        "`debug` is left out",
        "`max-processes` is left out",
        "`enforce` is left out",
        "`ducc.rm.eviction.policy` is left out",
        "limits of users for one class are left out",
        "no class is the default for RESERVE",
        "agents must report the same names",
    ] {
        assert!(translated.notes.iter().any(|note| note.contains(left_out)), "{left_out}");
        assert!(translated.text.contains(left_out), "{left_out}");
    }
}

/// A mistake in the class file, and what is said: code, place, words. The rows are the conditions
/// that the original's checker finds, crashes on or misses (C1 to C38).
const MISTAKES: &[(&str, &str, &str, &str)] = &[
    ("Nodepool {\n}\nClass", "C005", ":1:1", "a Nodepool without a name"),
    ("Nodepool main\nClass c { policy RESERVE; nodepool main }", "C005", ":1:10", "has no `{`"),
    (
        "Nodepool main { }\nClass c {\n policy RESERVE\nClass d c { }",
        "C005",
        ":2:7",
        "is never closed",
    ),
    ("Nodepool main { }\nClass c { policy RESERVE; nodepool main", "C005", ":2:7", "never closed"),
    ("Nodepool main { }\nClass c { policy ; nodepool main }", "C005", ":2:11", "has no value"),
    ("Nodepool main { parent }", "C005", ":1:17", "has no value"),
    ("Nodepool main { search-order 1; search-order 2 }", "C006", ":1:33", "is set twice"),
    ("Nodepool main { }\nNodepool main { nodefile x }", "C006", ":2:10", "called `main`"),
    ("Nodepool main { }\nNodepool b main { nodefile x }", "C025", ":2:12", "cannot inherit"),
    ("Nodepool main { }\nNodepool b { nodefile x; domain y }", "C025", ":2:26", "second `domain`"),
    ("Nodepool main { colour red }", "C010", ":1:17", "unknown `colour`"),
    ("Nodepool main { }\nClass c { policy RESERVE }", "C023", ":2:7", "has no `nodepool`"),
    ("Nodepool main { }\nClass c { nodepool main }", "C023", ":2:7", "has no `policy`"),
    (
        "Nodepool main { }\nClass c { policy FARE; nodepool main }",
        "C010",
        ":2:18",
        "is not a policy",
    ),
    (
        "Nodepool main { }\nClass c d { policy RESERVE; nodepool main }",
        "C024",
        ":2:9",
        "which is no class",
    ),
    ("Nodepool main { }\nClass c d { }\nClass d c { }", "C011", ":2:9", "c -> d -> c"),
    ("Nodepool main { share-quantum 0 }", "C016", ":1:31", "out of range"),
    ("Nodepool main { share-quantum x }", "C016", ":1:31", "is not a size"),
    (
        "Nodepool main { }\nNodepool b { nodefile x; parent main; share-quantum 1 }",
        "C016",
        ":2:53",
        "is part of `main` and has its quantum",
    ),
    ("Nodepool main { }\nNodepool b { nodefile absent }", "C018", ":2:23", "no node file"),
    (
        "Nodepool main { nodefile x }\nNodepool b { nodefile x }",
        "C006",
        ":2:23",
        "share the node file",
    ),
    ("Nodepool main { nodefile p.regex }", "C018", ":1:26", "has its nodes from a pattern"),
    (
        "Nodepool main { }\nClass c { policy FAIR_SHARE; nodepool main; weight heavy }",
        "C015",
        ":2:52",
        "whole number",
    ),
    (
        "Nodepool main { }\nClass c { policy RESERVE; nodepool main; priority x }",
        "C022",
        ":2:51",
        "whole number",
    ),
    (
        "Nodepool main { }\nClass c { policy RESERVE; nodepool main; weight 3 }",
        "C025",
        ":2:49",
        "has no effect in class",
    ),
    (
        "Nodepool main { }\nKlass c { policy RESERVE; nodepool main }",
        "C010",
        ":2:1",
        "did you mean `Class`?",
    ),
    ("Nodepool main { }\n}", "C005", ":2:1", "a brace that belongs to nothing"),
    (
        "Nodepool main { }\nUser u { max-allotment = much }",
        "C017",
        ":2:26",
        "no whole number of GB",
    ),
];

#[test]
fn mistakes_are_said_at_their_place_in_the_original() {
    let tail = "\nClass ok { policy RESERVE; nodepool main }\n";
    for (text, code, place, said) in MISTAKES {
        let text = format!("{text}{}", if text.contains("Class") { "\n" } else { tail });
        let (_folder, files) =
            folder(&[("ducc.classes", text.as_str()), ("x", "n1\n"), ("ducc.nodes", "n2\n")]);
        let Err(TranslationError::Problems(found)) = translate(&files) else {
            panic!("taken: {text}");
        };
        let told = found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        for piece in [&format!("error[{code}]"), &format!("ducc.classes{place}\n"), *said] {
            assert!(told.contains(piece), "{text} lacks {piece}:\n{told}");
        }
    }
}

#[test]
fn mistakes_in_node_files_are_said_there() {
    let classes = "Nodepool main { domain d.org }\nNodepool b { nodefile x }\n\
        Class c { policy RESERVE; nodepool main }\n";
    let cases = [
        ("n1\nn1\n", "C018", "ducc.nodes:2:1", "`n1` is listed before, in ducc.nodes:1"),
        ("n1\nn1.d.org\n", "C018", "ducc.nodes:2:1", "listed before"),
        ("n1\nimport more\n", "C018", "more:1:1", "`n1` is listed before, in ducc.nodes:1"),
        ("import ring\n", "C018", "ring:1:1", "imports itself: ducc.nodes -> ring -> ring"),
        ("n1\n  import\n", "C005", "ducc.nodes:2:3", "imports no file"),
        ("n1 n2\n", "C018", "ducc.nodes:1:1", "more than one word"),
        ("x1\n", "C018", "x:1:1", "`x1` is listed before, in ducc.nodes:1"),
    ];
    for (nodes, code, place, said) in cases {
        let (_folder, files) = folder(&[
            ("ducc.classes", classes),
            ("ducc.nodes", nodes),
            ("x", "x1\n"),
            ("more", "n1\n"),
            ("ring", "import ring\n"),
        ]);
        let told = translate(&files).unwrap_err().to_string();
        assert_eq!(told.matches("error[").count(), 1, "{nodes}: {told}");
        for piece in [code, place, said] {
            assert!(told.contains(piece), "{nodes} lacks {piece}:\n{told}");
        }
    }
}

#[test]
fn the_command_writes_a_file_that_loads_and_overwrites_none() {
    let (folder, files) = whole_cluster();
    let output: PathBuf = folder.path().join("apportion.toml");
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_apportion"));
        command.args(["config", "import-ducc"]).arg(&files.classes);
        command.arg("--users").arg(files.users.as_ref().unwrap());
        command.arg("--output").arg(&output).output().unwrap()
    };
    let first = run();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert!(String::from_utf8_lossy(&first.stderr).contains("note: `debug` is left out"));
    let before = fs::read_to_string(&output).unwrap();
    config::parse("apportion.toml", &before).unwrap();
    let second = run();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("File exists"));
    assert_eq!(fs::read_to_string(&output).unwrap(), before);
}

/// Each cut or damaged file gets an answer.
#[test]
fn a_class_file_that_is_cut_off_is_translated_or_refused() {
    let (folder, files) = whole_cluster();
    let classes = folder.path().join("ducc.classes");
    for end in (0..CLASSES.len()).step_by(3) {
        fs::write(&classes, &CLASSES[..end]).unwrap();
        match translate(&files) {
            Ok(translated) => drop(loaded(&translated)),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
