//! Fetches the kept standard input of a specification for a slot.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::head::Head;
use super::keeper::ToKeeper;

/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Tries until the keeper has it, or has ended.
pub(super) async fn fetch_input(head: Arc<Head>, keeper: mpsc::Sender<ToKeeper>, spec: u64) {
    let mut pause = Duration::from_secs(1);
    loop {
        match head.stdin(spec).await {
            Ok(bytes) => {
                let _ = keeper.send(ToKeeper::Stdin(spec, bytes)).await;
                return;
            }
            Err(why) => tracing::warn!(spec, why, "cannot fetch a standard input; trying again"),
        }
        if keeper.is_closed() {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}
