//! Urgent requests: decided in a cycle out of turn, and answered once the decision is stored.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::audited;
use super::error::DaemonError;
use super::owner::SchedulerTask;
use crate::api::UrgentReply;
use crate::auth::Actor;
use crate::model::JobSpec;
use crate::scheduler::{AdminCommand, CommandError, UrgentDenial};

impl SchedulerTask {
    /// True if cycles are planned: the scheduler knows the running jobs.
    pub(super) fn plans(&self) -> bool {
        self.has_recovered && self.settling == 0
    }

    /// Decides on an urgent request.
    pub(super) async fn decide_urgent(
        &mut self,
        spec: JobSpec,
        by: &Actor,
        reply: oneshot::Sender<UrgentReply>,
    ) -> Result<(), DaemonError> {
        let (asked, job, class) = (audited::urgent_words(&spec), spec.id, spec.class.clone());
        let command = AdminCommand::Urgent(Box::new(spec));
        let taken = if self.plans() {
            self.recorder.command(&mut self.scheduler, command).map(|_| ())
        } else {
            Err(CommandError::NotPlanning)
        };
        let outcome = match taken {
            Ok(()) if self.scheduler.is_deciding() => {
                self.cycle(Vec::new()).await?;
                let view = &self.board.latest().view;
                let verdict = view.urgent.iter().find(|verdict| verdict.job == job);
                let verdict = verdict.map(|verdict| verdict.outcome.clone());
                let topology = self.scheduler.topology();
                let class = topology.class_named(&class).map(|class| &topology.classes[class]);
                let quantum = class.map(|class| topology.pools[class.pool].quantum);
                let sentence = |denial: UrgentDenial| denial.sentence(quantum);
                // A cycle decides on all requests, so none is without a verdict.
                verdict.unwrap_or_else(|| Ok(Arc::default())).map_err(sentence)
            }
            // Known since the view that the handler saw.
            Ok(()) => Ok(self.scheduler.urgent_grant(job).unwrap_or_default()),
            Err(error) => {
                self.keep(audited::of(by, "urgent", asked, &format!("refused: {error}"))).await?;
                let _ = reply.send(Err(error));
                return Ok(());
            }
        };
        let words = match &outcome {
            Ok(_) => "accepted".to_owned(),
            Err(sentence) => format!("refused: {sentence}"),
        };
        tracing::info!(job = job.0, words, "an urgent request was decided");
        self.keep(audited::of(by, "urgent", asked, &words)).await?;
        // The client may have disconnected; the decision stands all the same.
        let _ = reply.send(Ok(outcome));
        Ok(())
    }
}
