//! A socket in the place of systemd's, for the notifications of a service.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A socket as `NOTIFY_SOCKET` names it.
pub struct Notified {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Notified {
    pub fn listen(folder: &Path) -> Notified {
        let path = folder.join("notify.sock");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Notified { socket, path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next message; panics if none comes.
    pub fn next(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).expect("something is said");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// The first message from now on with `text` in it.
    pub fn until(&self, text: &str) -> String {
        let began = Instant::now();
        let mut last = String::new();
        while began.elapsed() < Duration::from_mins(1) {
            last = self.next();
            if last.contains(text) {
                return last;
            }
        }
        panic!("{text} was never said, at last: {last}");
    }

    /// Number of messages with `text` in them within `time`.
    pub fn count(&self, text: &str, time: Duration) -> usize {
        let began = Instant::now();
        self.socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut found = 0;
        let mut buffer = [0; 4096];
        while began.elapsed() < time {
            if let Ok(length) = self.socket.recv(&mut buffer) {
                found += usize::from(String::from_utf8_lossy(&buffer[..length]).contains(text));
            }
        }
        self.socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        found
    }
}
