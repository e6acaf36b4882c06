//! SIGTERM from outside: an order to stop, as systemd sends it when the unit of the slot is to end.
//!
//! The signal is caught, not blocked: a started program inherits a blocked signal, but not a caught
//! signal.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::thread;

use signal_hook::consts::SIGTERM;
use signal_hook::low_level::pipe;

/// Calls `tell` for each SIGTERM from now on.
///
/// # Errors
///
/// If the system refuses that, or a thread.
pub fn start(tell: impl Fn() + Send + 'static) -> io::Result<()> {
    let (mut signals, caught) = UnixStream::pair()?;
    pipe::register(SIGTERM, caught)?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut byte = [0];
        while signals.read_exact(&mut byte).is_ok() {
            tell();
        }
    })?;
    Ok(())
}
