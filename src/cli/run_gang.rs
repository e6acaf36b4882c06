//! Running a gang, attached: the output of all its programs here, and the exit status of the rank that
//! decided.

use futures_util::future::join_all;

use super::attached::{end_with_output, follow, is_final, told, watch};
use super::failure::Failure;
use super::place::Orchestrator;
use crate::orchestrator::wire::{Reason, TaskInfo, TaskList};

/// Most ranks in an answer.
const RANKS: &str = "1000";

/// Shows the output of the first `shown` ranks of campaign `id` to its end, and returns the exit status.
///
/// # Errors
///
/// If the orchestrator refuses.
pub(super) async fn attached(
    orchestrator: &Orchestrator,
    id: u64,
    shown: u64,
) -> Result<u8, Failure> {
    let mut last = 0;
    loop {
        let followed = last;
        let both = async |task| {
            let stream = |channel| follow(orchestrator, (id, task), channel, followed);
            let (out, err) = tokio::join!(stream("out"), stream("err"));
            out.and(err)
        };
        let streams = join_all((1..=shown).map(both));
        let ended = watch(orchestrator, (id, 1), followed, begins_again);
        let info = end_with_output(ended, streams).await?;
        last = info.attempt;
        if is_final(&info) {
            return Ok(told(&decided(orchestrator, id, info).await?));
        }
    }
}

/// True if the gang begins again after the attempt behind `before`. Its ranks end at different times.
fn begins_again(info: &TaskInfo, before: u64) -> bool {
    info.state == "queued" && before < info.attempt
}

/// The rank whose end decided: the first that failed, or else rank 0.
async fn decided(
    orchestrator: &Orchestrator,
    id: u64,
    leader: TaskInfo,
) -> Result<TaskInfo, Failure> {
    let query = [("attempts", "true"), ("limit", RANKS)];
    let path = ["v1", "campaigns", &id.to_string(), "tasks"];
    let has_failed = |info: &TaskInfo| {
        let last = info.attempts.last().and_then(|last| last.result.as_ref());
        let is_own = |why: Reason| !matches!(why, Reason::Done | Reason::Cancelled);
        info.attempt == leader.attempt && last.is_some_and(|result| is_own(result.why))
    };
    if leader.state != "failed" || has_failed(&leader) {
        return Ok(leader);
    }
    let list: TaskList = orchestrator.get(&path, &query).await?;
    let found = list.tasks.into_iter().find(has_failed);
    Ok(found.unwrap_or(leader))
}
