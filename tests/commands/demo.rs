//! The demonstration as a stranger starts it: the real binary, the real daemon, real HTTP.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::process::{Command, Output, Stdio};

use serde_json::Value;

#[test]
fn the_demo_plays_and_reports() {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_apportion"))
        .args(["demo", "--once", "--for", "6s", "--report", "json", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let story = String::from_utf8(stderr).unwrap();
    let report: Value = serde_json::from_slice(&stdout).unwrap();
    let number = |key: &str| report[key].as_u64().unwrap_or_else(|| panic!("{key} in {report}"));

    assert!(status.success(), "{report}\n{story}");
    assert_eq!(number("nodes_seen"), 53, "{story}");
    assert!(number("shares_placed") > 0, "{story}");
    assert_eq!((number("audit_findings"), number("http_errors")), (0, 0), "{report}\n{story}");
    for key in ["cycles", "preemptions", "nodes_lost"] {
        number(key);
    }
    for key in ["/cycle_ms/p50", "/cycle_ms/p99", "/fairness_error"] {
        assert!(report.pointer(key).is_some_and(Value::is_number), "{key} in {report}");
    }
    assert!(story.contains("53 of 53 nodes"), "{story}");
}
