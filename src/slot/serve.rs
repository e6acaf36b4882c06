//! The socket of a slot: the agent connects, and may do so again after its restart.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::wire::{self, FromSlot, MAX_TO_SLOT, ToSlot};

/// Longest time until an agent accepts a frame.
const PATIENCE: Duration = Duration::from_millis(500);

/// The pause after a connection that the system could not hand over, as without descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Event on the socket.
#[derive(Debug)]
pub enum SocketEvent {
    /// An agent connected. It replaces the previous agent.
    Connected(AgentConnection),
    /// The agent of that connection sent a message.
    Message(u64, Box<ToSlot>, Vec<u8>),
    /// The agent of that connection is gone.
    Left(u64),
}

/// The connected agent.
#[derive(Debug)]
pub struct AgentConnection {
    /// The number of the connection.
    pub number: u64,
    stream: UnixStream,
}

impl AgentConnection {
    /// Sends a frame.
    ///
    /// # Errors
    ///
    /// If the agent does not take it in half a second.
    pub fn send(&mut self, message: &FromSlot, bytes: &[u8]) -> io::Result<()> {
        wire::send(&mut self.stream, message, bytes)?;
        self.stream.flush()
    }
}

impl Drop for AgentConnection {
    fn drop(&mut self) {
        // The thread that reads the stream ends with it. The stream may have ended before.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Listens on the socket at `path`, and passes its events to `tell`.
///
/// # Errors
///
/// If the socket cannot be made.
pub fn start(path: &Path, tell: impl Fn(SocketEvent) + Clone + Send + 'static) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    thread::Builder::new().name("socket".to_owned()).spawn(move || {
        for (number, stream) in (1..).zip(listener.incoming()) {
            match stream {
                Ok(stream) => {
                    // A connection that cannot be served is closed; the agent tries again.
                    let _ = accept(number, stream, tell.clone());
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    })?;
    Ok(())
}

fn accept(
    number: u64,
    stream: UnixStream,
    tell: impl Fn(SocketEvent) + Send + 'static,
) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = stream.try_clone()?;
    tell(SocketEvent::Connected(AgentConnection { number, stream }));
    thread::Builder::new().name("agent".to_owned()).spawn(move || {
        while let Ok(Some((message, bytes))) = wire::receive::<ToSlot>(&mut reader, MAX_TO_SLOT) {
            tell(SocketEvent::Message(number, Box::new(message), bytes));
        }
        tell(SocketEvent::Left(number));
    })?;
    Ok(())
}
