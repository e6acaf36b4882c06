//! Requests of attackers and of faulty programs: refused early, with little memory, while other
//! clients are served.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::daemon::{CONFIG, Daemon};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
/// By how much all that may make the daemon grow.
const GROWTH_MAX: u64 = 64 * MIB;
/// Longer than anything here takes that ends at all.
const PATIENCE: Duration = Duration::from_mins(1);

fn start(folder: &TempDir, limits: &str) -> Daemon {
    let limits = format!("[daemon.limits]\n{limits}\n[scheduler]");
    Daemon::start(folder.path(), &CONFIG.replace("[scheduler]", &limits))
}

fn address(daemon: &Daemon) -> String {
    daemon.url.trim_start_matches("http://").to_owned()
}

fn connect(daemon: &Daemon) -> TcpStream {
    let stream = TcpStream::connect(address(daemon)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Peak memory of the daemon in bytes, without the pages of its program. These pages are read from
/// a file on first use, and a debug build has tens of megabytes of them.
fn peak(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let bytes = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    bytes("VmHWM:") - bytes("RssFile:")
}

/// All that comes until the other side closes.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "it goes on for ever"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn head(method: &str, path: &str, headers: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: head\r\nContent-Type: application/json\r\n{headers}\r\n"
    )
}

/// Sends `head` and then `part`, until so many bytes went or the other side has had enough. Returns
/// how many went, and the answer.
fn flood(daemon: &Daemon, head: &str, part: &[u8], most: u64) -> (u64, String) {
    let mut stream = connect(daemon);
    stream.write_all(head.as_bytes()).unwrap();
    let mut sent = 0;
    while sent < most && stream.write_all(part).is_ok() {
        sent += u64::try_from(part.len()).unwrap();
    }
    (sent, rest(&mut stream))
}

/// An innocent client whose heartbeats must be answered during the attack.
struct Other {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    thread: thread::JoinHandle<()>,
}

impl Other {
    fn begin(daemon: &Daemon) -> Other {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_over, count) = (Arc::clone(&stop), Arc::clone(&answered));
        let address = address(daemon);
        let beat = move || {
            let connect = || {
                let stream = TcpStream::connect(&address).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream
            };
            let mut stream = connect();
            let body = r#"{"node": "n1", "memory_mb": 1024}"#;
            let length = format!("Content-Length: {}\r\n", body.len());
            let request = head("POST", "/v1/heartbeats", &length) + body;
            while !is_over.load(Ordering::Relaxed) {
                let mut answer = [0; 1024];
                let mut ask = || {
                    stream.write_all(request.as_bytes())?;
                    stream.read(&mut answer)
                };
                let length = ask().unwrap_or(0);
                if length == 0 {
                    // On a busy machine we may have been silent for too long ourselves.
                    stream = connect();
                    continue;
                }
                assert!(answer[..length].starts_with(b"HTTP/1.1 202"), "a heartbeat is refused");
                count.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(20));
            }
        };
        Other { stop, answered, thread: thread::spawn(beat) }
    }

    fn end(self) {
        let before = self.answered.load(Ordering::Relaxed);
        let started = Instant::now();
        while self.answered.load(Ordering::Relaxed) < before + 2 {
            assert!(started.elapsed() < PATIENCE, "heartbeats are not answered any more");
            thread::sleep(Duration::from_millis(10));
        }
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

#[tokio::test]
async fn too_much_is_refused_early_and_costs_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    // The daemon runs with the default limits.
    let daemon = start(&folder, "");
    let other = Other::begin(&daemon);
    let before = peak(&daemon);

    // 10 GB in chunks. The kernel holds some of what we sent when we learn that it was too much.
    let chunk = [b"100000\r\n", vec![b' '; 1 << 20].as_slice(), b"\r\n"].concat();
    for (method, path, most) in [
        ("POST", "/v1/heartbeats", 8),
        ("PUT", "/v1/publication", 50),
        ("POST", "/v1/nodes/vary-off", 8),
        ("GET", "/v1/nodes", 0),
    ] {
        let head = head(method, path, "Transfer-Encoding: chunked\r\n");
        let (sent, answer) = flood(&daemon, &head, &chunk, 10_000 * MIB);
        assert!(sent < (most + 32) * MIB, "{path}: {sent} bytes");
        // If the connection breaks while the test still sends, the answer may be lost.
        let is_told = answer.starts_with("HTTP/1.1 413") || answer.starts_with("HTTP/1.1 200");
        assert!(is_told || answer.is_empty(), "{path}: {answer}");
    }
    // 10 GB announced: not a byte of it is waited for.
    for (method, path) in [("POST", "/v1/heartbeats"), ("PUT", "/v1/publication")] {
        let head = head(method, path, "Content-Length: 10000000000\r\n");
        let (_, answer) = flood(&daemon, &head, b"", 0);
        assert!(answer.starts_with("HTTP/1.1 413"), "{path}: {answer}");
    }
    // 30 MB that stands for 30 GB is not unpacked.
    let packed = "Content-Encoding: gzip\r\nContent-Length: 31457280\r\n";
    let (_, answer) = flood(&daemon, &head("PUT", "/v1/publication", packed), b"\x1f\x8b\x08", 3);
    assert!(answer.starts_with("HTTP/1.1 415"), "{answer}");
    // Nested a million times, in arrays and in objects.
    for (path, part) in [("/v1/heartbeats", "["), ("/v1/nodes/vary-off", r#"{"a":"#)] {
        let body = part.repeat(1_000_000);
        let length = format!("Content-Length: {}\r\nConnection: close\r\n", body.len());
        let mut stream = connect(&daemon);
        stream.write_all((head("POST", path, &length) + &body).as_bytes()).unwrap();
        let answer = rest(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
    }
    // Heads without end.
    let long = format!("/v1/nodes?{}", "x".repeat(1 << 17));
    for (what, head) in [
        ("an address", head("GET", &long, "")),
        ("headers", head("GET", "/v1/nodes", &"A: b\r\n".repeat(100_000))),
        ("one header", head("GET", "/v1/nodes", &format!("A: {}\r\n", "b".repeat(1 << 20)))),
    ] {
        let mut stream = connect(&daemon);
        // The daemon may refuse the request before all of it is sent.
        let _ = stream.write_all(head.as_bytes());
        let answer = rest(&mut stream);
        let is_refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(is_refused, "{what}: {answer}");
    }
    let growth = peak(&daemon) - before;
    assert!(growth <= GROWTH_MAX, "it grew by {} MiB", growth >> 20);
    other.end();
}

#[tokio::test]
async fn slow_and_excess_connections_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let access = format!("[daemon.access]\nsocket = '{}'", socket.display());
    let daemon = start(&folder, &format!("connections_per_peer = 200\n{access}"));
    daemon.logs("admin.sock").await;
    let other = Other::begin(&daemon);
    let before = peak(&daemon);

    // Heads and bodies that begin and do not go on.
    let slow_head = |_| {
        let mut stream = connect(&daemon);
        stream.write_all(b"POST /v1/heartbeats HTTP/1.1\r\nHost: he").unwrap();
        stream
    };
    let slow_body = |_| {
        let mut stream = connect(&daemon);
        let head = head("POST", "/v1/heartbeats", "Content-Length: 100000\r\n");
        stream.write_all((head + "{").as_bytes()).unwrap();
        stream
    };
    let mut slow: Vec<TcpStream> = (0..80).map(slow_head).chain((0..80).map(slow_body)).collect();

    // More than 200 are not let in; 161 are there.
    let mut crowd: Vec<TcpStream> = (0..60).map(|_| connect(&daemon)).collect();
    let turned_away = crowd.iter_mut().filter_map(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut byte = [0];
        let came = stream.read(&mut byte);
        came.ok().filter(|count| *count == 0)
    });
    let turned_away = turned_away.count();
    assert!((20..=22).contains(&turned_away), "{turned_away}");
    // Administrators have a door of their own.
    let mut admin = UnixStream::connect(&socket).unwrap();
    admin.set_read_timeout(Some(PATIENCE)).unwrap();
    admin.write_all(head("GET", "/v1/status", "Connection: close\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    admin.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(crowd);

    // A byte now and then does not help.
    let started = Instant::now();
    let mut open = slow.len();
    while 0 < open {
        assert!(started.elapsed() < PATIENCE, "{open} are still served");
        thread::sleep(Duration::from_millis(500));
        open = slow.iter_mut().map(|stream| usize::from(stream.write_all(b"x").is_ok())).sum();
    }
    for (index, stream) in slow.iter_mut().enumerate() {
        let answer = rest(stream);
        let is_told = answer.starts_with("HTTP/1.1 408");
        assert!(answer.is_empty() || (80 <= index && is_told), "{index}: {answer}");
    }
    let growth = peak(&daemon) - before;
    assert!(growth <= GROWTH_MAX, "it grew by {} MiB", growth >> 20);
    other.end();
}
