//! Ends the slots of a spool when their agent has ended, for nodes that go down as a whole.

use std::path::Path;

use super::books::Books;
use super::ladder::Ladder;

/// Kills all that is left of the slots in the folder `spool`, and says how many there were. Their
/// books stay: the next agent tells the orchestrator, which gives their tasks to other slots.
///
/// # Errors
///
/// If an agent still uses the spool, or a slot does not end.
pub async fn end_slots(spool: &Path) -> Result<usize, String> {
    let books = Books::open(spool)?;
    let unreadable = |error| format!("cannot read the spool {}: {error}", spool.display());
    let started = books.all().map_err(unreadable)?;
    let ladder = Ladder::probe(None, rustix::process::getuid().is_root());
    let mut ended = 0;
    for book in started.iter().filter(|book| book.process.is_some()) {
        if !ladder.end_all(book).await {
            return Err(format!("slot {} does not end", book.slot));
        }
        ended += 1;
    }
    Ok(ended)
}
