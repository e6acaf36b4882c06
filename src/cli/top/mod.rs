//! The cluster in the terminal, live: fair share and holdings, waiting jobs, nodes and events.
//!
//! Looked at anew when something has come about, and not more often than once a second. What is
//! shown is made by a pure function, [`frame()`], from what the API answered.

mod data;
mod frame;
mod screen;
mod stand;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

use super::args::Top as Args;
use super::client::DaemonClient;
use super::failure::{Failure, FailureKind};
use data::ClusterData;
use frame::frame;
use screen::Screen;
use stand::UiState;

/// Shortest time between two screens: readers are no faster.
const PAUSE: Duration = Duration::from_secs(1);

/// Shows the cluster until the reader presses a key to end it.
///
/// # Errors
///
/// If no terminal is there, or the daemon cannot be reached at the start. The screen shows later
/// errors.
pub async fn run(args: &Args) -> Result<(), Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let message = "top needs a terminal; `apportion diag`, `load` and `queue` answer programs";
        return Err(Failure::new(FailureKind::Refused, message));
    }
    let client = DaemonClient::new(&args.remote)?;
    let mut stand = UiState::default();
    let mut data = ClusterData::take(&client, &stand, None).await?;
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let mut screen = Screen::open()?;
    let mut keys = screen::keys();
    let (asked, mut stream) = data_stream(args)?;
    loop {
        screen.show(&frame(&data, &mut stand, Screen::size()?))?;
        tokio::select! {
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if is_end(key) {
                        return Ok(());
                    }
                    let waiting_only = stand.waiting_only;
                    stand.take(key.code);
                    if waiting_only != stand.waiting_only {
                        asked.send_replace(stand.clone());
                    }
                }
                // The terminal may have another size now.
                Some(_) => screen.forget(),
                None => return Ok(()),
            },
            next = stream.recv() => match next {
                Some(Ok(next)) => data = next,
                Some(Err(failure)) => {
                    data.trouble = failure.error.map(|error| error.to_string());
                }
                None => return Ok(()),
            },
            _ = terminated.recv() => return Ok(()),
        }
    }
}

fn is_end(key: KeyEvent) -> bool {
    let is_interrupt =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_interrupt || matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc)
}

type DataStream = mpsc::Receiver<Result<ClusterData, Failure>>;

/// Returns a stream of data for the pane that the sender names, a new one after each event.
fn data_stream(args: &Args) -> Result<(tokio::sync::watch::Sender<UiState>, DataStream), Failure> {
    let client = DaemonClient::new(&args.remote)?;
    let (sender, receiver) = mpsc::channel(1);
    let (asked, mut wanted) = tokio::sync::watch::channel(UiState::default());
    tokio::spawn(async move {
        let mut last: Option<ClusterData> = None;
        loop {
            let stand = wanted.borrow_and_update().clone();
            let next = ClusterData::take(&client, &stand, last.as_ref()).await;
            last = next.as_ref().ok().cloned();
            if sender.send(next).await.is_err() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
            let Some(seen) = &last else { continue };
            tokio::select! {
                // The next look shows an error of this wait.
                _ = seen.wait_for_more(&client) => {}
                changed = wanted.changed() => if changed.is_err() { return },
            }
        }
    });
    Ok((asked, receiver))
}
