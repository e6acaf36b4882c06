//! Notices that a child ended.
//!
//! The reaper only notices; the main loop of the slot waits for the child. So the number of a child
//! stays its own until the loop has handled its end. A signal never reaches another process that
//! got the number. No other thread waits for children.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// Starts the reaper. It calls `notice` when there is a child to wait for. It goes on when the
/// returned sender is used: after waiting, and after each start of a child.
///
/// # Errors
///
/// If the thread cannot start.
pub fn start(notice: impl Fn() + Send + 'static) -> io::Result<Sender<()>> {
    let (go_on, may_go_on) = channel();
    thread::Builder::new().name("reaper".to_owned()).spawn(move || watch(&notice, &may_go_on))?;
    Ok(go_on)
}

fn watch(notice: &impl Fn(), may_go_on: &Receiver<()>) {
    loop {
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) => notice(),
            Err(Errno::INTR) => continue,
            // Without a child, the reaper pauses until the slot starts a program.
            Err(_) => {}
        }
        if may_go_on.recv().is_err() {
            return;
        }
    }
}
