//! Tasks that are added to a campaign.

use tokio::sync::oneshot;

use super::book::{CannotExtend, Event};
use super::drive::{By, Owner, Reply};
use super::spec::{Params, TaskRange};
use super::store::{Added, DbError, Extension};
use super::wire::AddedTasks;

/// Tasks to be added.
#[derive(Debug)]
pub struct Extend {
    /// The campaign.
    pub campaign: u64,
    /// Number of tasks to add.
    pub count: u64,
    /// Their parameters.
    pub params: Params,
    /// Idempotency key: the same key means the same request.
    pub key: Option<String>,
}

/// Receiver of the answer.
pub(super) type ExtendReply = oneshot::Sender<Result<AddedTasks, CannotExtend>>;

impl Owner {
    /// Adds tasks, unless the campaign takes no more. They may begin once they are on record.
    pub(super) async fn extend(
        &mut self,
        extend: Extend,
        by: By,
        reply: ExtendReply,
    ) -> Result<(), DbError> {
        let Extend { campaign, count, params, key } = extend;
        // Events of this batch are on record only after the commit.
        self.finish_batch().await?;
        if let Some(key) = &key
            && let Some(added) = self.store.added(campaign, key).await?
            && let Some(known) = self.book.campaigns().get(&campaign)
        {
            let range = known.spec.tasks;
            self.replies.push(Reply::Added(reply, Ok(told(campaign, range, added))));
            return Ok(());
        }
        let checked = self.book.check_extension(campaign, count);
        let has_texts = self.store.params(campaign, 0).await?.is_some();
        let checked = match (&params, has_texts) {
            (Params::Numbers, true) => checked.and(Err(CannotExtend::NeedsTexts(campaign))),
            (Params::Texts(_), false) => checked.and(Err(CannotExtend::NeedsCount(campaign))),
            (Params::Numbers, false) | (Params::Texts(_), true) => checked,
        };
        let range = match checked {
            Ok(range) => range,
            Err(refused) => {
                self.replies.push(Reply::Added(reply, Err(refused)));
                return Ok(());
            }
        };
        let added = Added { position: range.count, count };
        self.note(by, "add tasks", format!("campaign {campaign}: {count} tasks"));
        self.answers.forget(campaign);
        self.record(Event::Extended(campaign, count));
        self.batch.extensions.push(Extension { campaign, added, params, key });
        let range = TaskRange { count: range.count + count, ..range };
        self.replies.push(Reply::Added(reply, Ok(told(campaign, range, added))));
        Ok(())
    }
}

fn told(campaign: u64, range: TaskRange, added: Added) -> AddedTasks {
    let first = range.at(added.position).unwrap_or(range.first);
    AddedTasks { id: campaign, first, added: added.count, tasks: range.count }
}
