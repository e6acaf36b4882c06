//! Tasks that are added to a campaign that is under way.

use std::sync::Arc;

use super::Book;
use super::notes::history;
use crate::model::counted;
use crate::orchestrator::spec::{CampaignType, TaskRange};

/// The largest number that a task may have.
const LARGEST_NUMBER: u64 = 1 << 53;

/// Reason why tasks cannot be added to a campaign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotExtend {
    /// The campaign is final, or does not exist.
    #[error("campaign {0} has ended, and takes no more tasks; submit a new one")]
    Ended(u64),
    /// The campaign is being cancelled.
    #[error("campaign {0} is being cancelled, and takes no more tasks; submit a new one")]
    Cancelling(u64),
    /// The campaign is a test, of which a single task runs.
    #[error("campaign {0} is of the type `test`, of which one task runs; submit a new one")]
    Test(u64),
    /// The campaign has `keep`, and so has a single task.
    #[error("campaign {0} is kept, and so has one task; submit a new one")]
    Kept(u64),
    /// The campaign is a gang, whose ranks are its tasks.
    #[error("campaign {0} is a gang, and runs one program; submit a new one")]
    Gang(u64),
    /// The campaign has cancelled tasks that were never touched.
    #[error(
        "campaign {0} was cancelled and resubmitted without its cancelled tasks; first `apportion campaign \
         resubmit {0} --cancelled`, or submit a new one"
    )]
    Cut(u64),
    /// The campaign would have too many tasks.
    #[error(
        "campaign {0} would have more than 10,000,000 tasks, or numbers above 2^53; submit a new one"
    )]
    TooMany(u64),
    /// The campaign's tasks are lines or items, and the request adds numbers.
    #[error("count: the tasks of campaign {0} have an entry each; add `lines` or `items` to it")]
    NeedsTexts(u64),
    /// The campaign's tasks are numbers, and the request adds lines or items.
    #[error(
        "the tasks of campaign {0} have numbers only; add them by `count`, or submit a new one"
    )]
    NeedsCount(u64),
}

impl Book {
    /// Returns the present tasks of a campaign, if `count` more can be added.
    ///
    /// # Errors
    ///
    /// If the campaign takes no more tasks.
    pub fn check_extension(&self, id: u64, count: u64) -> Result<TaskRange, CannotExtend> {
        let campaign = self.campaigns.get(&id).ok_or(CannotExtend::Ended(id))?;
        let range = campaign.cursor.range;
        let total = range.count.saturating_add(count);
        let last = range.first.saturating_add(range.step.saturating_mul(total.saturating_sub(1)));
        if campaign.facts.ending.is_some() {
            Err(CannotExtend::Cancelling(id))
        } else if self.has_begun_epilogue(campaign) {
            Err(CannotExtend::Ended(id))
        } else if campaign.spec.kind == CampaignType::Test {
            Err(CannotExtend::Test(id))
        } else if campaign.spec.keep {
            Err(CannotExtend::Kept(id))
        } else if campaign.spec.gang.is_some() {
            Err(CannotExtend::Gang(id))
        } else if campaign.cursor.limit < range.count {
            Err(CannotExtend::Cut(id))
        } else if TaskRange::LARGEST < total || LARGEST_NUMBER < last {
            Err(CannotExtend::TooMany(id))
        } else {
            Ok(range)
        }
    }

    /// Adds `count` tasks at the end of a campaign that takes some.
    pub(super) fn extend(&mut self, id: u64, count: u64) {
        if self.check_extension(id, count).is_err() {
            return;
        }
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let total = campaign.facts.total + count;
        campaign.facts.total = total;
        campaign.spec = Arc::clone(&campaign.spec).with_total(total);
        (campaign.cursor.range.count, campaign.cursor.limit) = (total, total);
        let text = format!("{} were added, {total} in all", counted(count, "task"));
        self.dirty.notes.push(history(id, "extended", &text));
        self.dirty.settle.insert(id);
    }
}
