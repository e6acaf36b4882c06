//! Tasks that are queued again: reads them, and tells the book.

use super::book::{Event, Reopened, TaskState};
use super::drive::{By, Owner};
use super::store::DbError;

/// Selection of tasks that are queued again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// Only tasks in these states.
    pub states: Vec<TaskState>,
    /// Only this task.
    pub task: Option<u64>,
    /// True for suspicious tasks only.
    pub is_suspicious: bool,
    /// Another size of memory for the tasks, in MiB.
    pub memory_mb: Option<u64>,
}

impl Owner {
    /// Queues final tasks of a campaign again. Returns their number.
    pub(super) async fn resubmit(
        &mut self,
        campaign: u64,
        which: Which,
        by: By,
    ) -> Result<u64, DbError> {
        let Which { states, task, is_suspicious, memory_mb } = which;
        // Tasks that became final in this batch are on record after the commit only.
        self.finish_batch().await?;
        let Some((row, mut tasks, beyond)) = self.store.finals(campaign, &states).await? else {
            return Ok(0);
        };
        let spec = self.store.spec(&row).await?;
        // Ranks of a gang begin together.
        let task = task.filter(|_| spec.gang.is_none());
        tasks.retain(|row| task.is_none_or(|task| row.task == task));
        if is_suspicious {
            let suspicious = self.store.suspicious(campaign).await?;
            tasks.retain(|row| suspicious.contains(&row.task));
        }
        let untouched = task.is_none() && states.contains(&TaskState::Cancelled);
        let cut = if untouched { spec.tasks.count.saturating_sub(row.limit) } else { 0 };
        let count = crate::model::count(&tasks) + cut;
        self.note(by, "resubmit", format!("campaign {campaign}: {count} tasks"));
        let works = self.store.works(campaign).await?;
        let reopened = Reopened { campaign: row, spec, works, tasks, beyond, untouched, memory_mb };
        self.record(Event::Resubmitted(Box::new(reopened)));
        Ok(count)
    }
}
