//! The configuration as an administrator meets it: the real binary, its files, its answers.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The smallest valid configuration; text after it begins at line 7.
const SMALL: &str =
    "[[nodepool]]\nname = \"p\"\n[[class]]\nname = \"c\"\npolicy = \"reserve\"\nnodepool = \"p\"\n";

/// Runs to the end: exit status, standard output, standard error.
#[track_caller]
fn run(args: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apportion"));
    command.args(args).stdin(Stdio::null()).env_remove("APPORTION_CONFIG");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn written(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Rows 53 to 68 of the list of bad inputs, each with its answer: code, place, and a piece of what
/// is said. Row 67, files with secrets, is in `bad_inputs`.
const ROWS: &[(u32, &str, &str, &str, &str)] = &[
    (54, "[daemon", "C005", ":7:8", "unclosed table"),
    (54, "[daemon]\nlisten =", "C005", ":8:9", "the file is TOML 1.1"),
    (54, "[[nodepool]]\nname='q'\nnodes=['a',\n[daemon]\n", "C005", ":9:7", "is never closed"),
    (54, "[[class]]\npolicy='reserve'\nnodepool='p'", "C023", ":7:1", "add a line `name = …`"),
    (55, "[daemon]\naudit_every=1\naudit_every=2", "C006", ":9:1", "- the first"),
    (55, "[[class]]\nname='c'\ninherit='c'", "C006", ":8:6", "--- the first"),
    (55, "[[nodepool]]\nname='p'", "C006", ":8:6", "--- the first"),
    (55, "[[nodepool]]\nname='q'\nnodes=['n1','n1']", "C018", ":9:13", "is listed before"),
    (
        56,
        "[[nodepool]]\nname='a'\nparent='d'\n[[nodepool]]\nname='d'\nparent='a'",
        "C007",
        ":9:8",
        "a -> d -> a",
    ),
    (57, "[[nodepool]]\nname='gpus'\nparent='gpu'", "C008", ":9:8", "did you mean `gpus`?"),
    (57, "[[class]]\nname='d'\npolicy='reserve'\nnodepool='q'", "C009", ":10:10", "there is `p`"),
    (58, "[scheduler]\nquantom='1GB'", "C010", ":8:1", "did you mean `quantum`?"),
    (
        58,
        "[[class]]\nname='d'\npolicy='FAIR'\nnodepool='p'",
        "C010",
        ":9:8",
        "policies are fair-share, fixed-share, reserve",
    ),
    (
        59,
        "[[class]]\nname='d'\ninherit='e'\n[[class]]\nname='e'\ninherit='d'",
        "C011",
        ":9:9",
        "d -> e -> d",
    ),
    (
        59,
        "[[class]]\nname='d'\nabstract=true\ndefault=true",
        "C012",
        ":10:9",
        "cannot be a default",
    ),
    (
        60,
        "default=true\n[[class]]\nname='d'\ninherit='c'\ndefault=true",
        "C013",
        ":11:9",
        "- the first",
    ),
    (
        61,
        "[[class]]\nname='d'\npolicy='fixed-share'\nnodepool='p'\npriority=1",
        "C014",
        ":11:10",
        "give each policy priorities of its own",
    ),
    (
        62,
        "[[class]]\nname='d'\npolicy='fair-share'\nnodepool='p'\nweight=0",
        "C015",
        ":11:8",
        "allowed are 1 to 1000000",
    ),
    (63, "[scheduler]\nquantum='0GB'", "C016", ":8:9", "allowed are 1 MB to"),
    (63, "[[nodepool]]\nname='q'\nparent='p'\nquantum='1GB'", "C016", ":10:9", "top-level"),
    (64, "[scheduler]\nallotment='1.5GB'", "C017", ":8:11", "write whole megabytes"),
    (64, "[[user]]\nname='u'\nallotment='-1GB'", "C017", ":9:11", "is not a size"),
    (65, "[[nodepool]]\nname='a'\nnodes=['n[3-1]']", "C018", ":9:8", "counts down"),
    (65, "[[nodepool]]\nname='a'\nnodes=['']", "C018", ":9:8", "a name is empty"),
    (66, "[scheduler]\ninitialization_cap=0", "C019", ":8:20", "leaves nothing to double"),
    (66, "[scheduler]\nfragmentation_threshold=0", "C019", ":8:25", "allowed are 1 to 1000000"),
    (66, "[scheduler]\nnode_stability=0", "C019", ":8:16", "allowed are 1 to 1000"),
    (66, "[daemon]\nheartbeat_interval='0s'", "C019", ":8:20", "allowed are 10ms to 3600s"),
    (68, "[daemon]\nlisten='0.0.0.0:7070'", "C021", ":8:8", "listen on 127.0.0.1 or [::1]"),
];

#[test]
fn every_mistake_is_answered_with_its_code_its_place_and_a_remedy() {
    let folder = TempDir::new().unwrap();
    for (row, addition, code, place, said) in ROWS {
        let file = written(&folder, "test.toml", format!("{SMALL}{addition}"));
        let (status, stdout, stderr) = run(&["config", "check", &file], &[]);
        assert_eq!((status, stdout.as_str()), (1, ""), "row {row}: {stderr}");
        assert_eq!(stderr.matches("error[").count(), 1, "row {row}: {stderr}");
        for expected in
            [&format!("error[{code}]: "), &format!("test.toml{place}\n"), "= help: ", said]
        {
            assert!(stderr.contains(expected), "row {row} lacks {expected:?}:\n{stderr}");
        }
    }
}

/// Row 53.
#[test]
fn what_cannot_be_read_is_told_apart_with_its_path_and_the_reason() {
    let folder = TempDir::new().unwrap();
    let file = written(&folder, "latin.toml", b"# caf\xe9\n");
    let below = format!("{file}/apportion.toml");
    let absent = folder.path().join("absent.toml").to_str().unwrap().to_owned();
    let cases = [
        (absent.as_str(), "C001: there is no file"),
        (below.as_str(), "C002: cannot read"),
        (folder.path().to_str().unwrap(), "C003: "),
        (file.as_str(), "C004: "),
    ];
    for (path, said) in cases {
        for (command, expected) in
            [(["config", "check"].as_slice(), 1), (&["serve", "--config"], 78)]
        {
            let (status, _, stderr) = run(&[command, &[path]].concat(), &[]);
            assert_eq!(status, expected, "{path}: {stderr}");
            assert!(stderr.contains(said) && stderr.contains(path), "{path}: {stderr}");
        }
    }
    let (_, _, stderr) = run(&["config", "check", &below], &[]);
    assert!(stderr.contains("Not a directory (os error 20)"), "{stderr}");
}

#[test]
fn every_setting_is_shown_with_who_set_it() {
    let folder = TempDir::new().unwrap();
    let file = written(&folder, "test.toml", format!("{SMALL}[scheduler]\nquantum = '2048MB'\n"));
    let variables = [("APPORTION__SCHEDULER__NODE_STABILITY", "3")];
    let args = [
        "config",
        "show",
        &file,
        "--origin",
        "--set",
        "daemon.audit_every = 1",
        "--set",
        "daemon.listen=[::1]:80",
    ];
    let (status, stdout, stderr) = run(&args, &variables);
    assert_eq!((status, stderr.as_str()), (0, ""));
    let line = |setting: &str| {
        let line = stdout.lines().find(|line| line.starts_with(&format!("{setting} ")));
        line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let cases = [
        ("scheduler.quantum", format!("\"2GB\" {file}:8")),
        (
            "scheduler.node_stability",
            "3 environment, APPORTION__SCHEDULER__NODE_STABILITY".to_owned(),
        ),
        ("daemon.audit_every", "1 flag, --set".to_owned()),
        ("daemon.listen", "\"[::1]:80\" flag, --set".to_owned()),
        ("scheduler.allotment", "(not set) default".to_owned()),
        ("class.c.priority", "1 default".to_owned()),
    ];
    for (setting, expected) in cases {
        assert_eq!(line(setting), format!("{setting} {expected}"));
    }

    let (_, stdout, _) = run(&["config", "show", &file, "--json"], &variables);
    let rows: Vec<Value> = serde_json::from_str(&stdout).unwrap();
    let quantum = rows.iter().find(|row| row["setting"] == "scheduler.quantum").unwrap();
    assert_eq!((&quantum["value"], &quantum["origin"]["line"]), (&"\"2GB\"".into(), &8.into()));

    let (_, stdout, _) = run(&["config", "show", &file], &variables);
    assert!(stdout.contains("scheduler.quantum = \"2GB\"\n"), "{stdout}");
    assert!(stdout.contains("# scheduler.allotment is not set\n"), "{stdout}");
}

#[test]
fn a_flag_that_sets_nothing_is_refused() {
    let folder = TempDir::new().unwrap();
    let file = written(&folder, "test.toml", SMALL);
    let (status, _, stderr) =
        run(&["config", "check", &file, "--set", "scheduler.quantom=4GB"], &[]);
    assert_eq!(status, 1);
    assert!(stderr.contains("flag --set") && stderr.contains("did you mean `scheduler.quantum`?"));
    let (status, _, stderr) = run(&["config", "check", &file, "--set", "scheduler.quantum"], &[]);
    assert_eq!(status, 2);
    assert!(stderr.contains("write KEY=VALUE"), "{stderr}");
}

#[test]
fn what_is_asked_of_the_daemon_is_not_asked_of_a_file() {
    let (status, _, stderr) = run(&["config", "show", "a.toml", "--running"], &[]);
    assert_eq!(status, 2, "{stderr}");
    let (status, _, stderr) =
        run(&["config", "show", "--running", "--url", "http://127.0.0.1:1"], &[]);
    assert_eq!(status, 3, "{stderr}");
}

#[test]
fn the_schema_is_json_for_editors() {
    let (status, stdout, _) = run(&["config", "schema"], &[]);
    let schema: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((status, &schema["type"]), (0, &"object".into()));
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/apportion.toml");
    assert!(std::fs::read_to_string(sample).unwrap().contains("#:schema ./apportion.schema.json"));
}
