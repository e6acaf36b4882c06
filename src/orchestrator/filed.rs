//! Events of nodes and clusters that operators file and close.

use tokio::sync::oneshot;

use super::book::Event;
use super::drive::{By, Owner, Reply, now};
use super::wire::{EventClass, GridEvent, NewGridEvent};

/// Reason why an event cannot be filed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotFile {
    /// The parent is not open.
    #[error("parent: no event {0} is open; `apportion fault list` shows those that are")]
    NoParent(u64),
}

/// Receiver of the answer.
pub(super) type FileReply = oneshot::Sender<Result<u64, CannotFile>>;

impl Owner {
    /// Files an event, unless an event of the same node or cluster is open, which is the answer then.
    pub(super) fn file(&mut self, new: NewGridEvent, by: By, reply: FileReply) {
        let NewGridEvent { class, name, text, parent } = new;
        if let Some(parent) = parent.filter(|parent| self.book.filed().all(|it| it.id != *parent)) {
            self.replies.push(Reply::Filed(reply, Err(CannotFile::NoParent(parent))));
            return;
        }
        let known = self.book.filed_of(class, &name).map(|event| event.id);
        if let Some(id) = known.filter(|_| class != EventClass::Log) {
            self.replies.push(Reply::Filed(reply, Ok(id)));
            return;
        }
        let id = self.book.next_filed();
        let who = by.who.clone();
        self.note(by, "file event", format!("event {id}: {} {name}: {text}", class.word()));
        let event = GridEvent {
            id,
            class,
            name,
            code: "filed".to_owned(),
            who,
            opened_ms: now().wall_ms,
            closed_ms: None,
            parent,
            text,
        };
        self.record(Event::Filed(Box::new(event)));
        self.replies.push(Reply::Filed(reply, Ok(id)));
    }

    /// Closes an event, with all that it caused.
    pub(super) fn close(&mut self, id: u64, by: By, reply: oneshot::Sender<bool>) {
        let is_open = self.book.filed().any(|event| event.id == id);
        if is_open {
            self.note(by, "close event", format!("event {id}"));
            self.record(Event::Closed(id));
        }
        self.replies.push(Reply::Closed(reply, is_open));
    }
}
