//! The scheduler task's answers about the configuration: the current settings, the history, the
//! effects of another configuration, and its activation.

use super::audited;
use super::clock::now_ms;
use super::error::DaemonError;
use super::live::complete;
use super::notify;
use super::owner::SchedulerTask;
use super::refused::Refused;
use crate::api::wire::{ConfigGeneration, ConfigHistory, ConfigPlan, ConfigRequest};
use crate::api::{ConfigAsk, RereadOutcome};
use crate::auth::Actor;
use crate::config::Config;
use crate::scheduler::{AdminCommand, CommandImpact};
use crate::store::{AdminRow, ConfigurationRow, StoreError};

/// A configuration that is right, and how it came.
type Wanted = Result<(Config, &'static str), Refused>;

/// Outcome of reading the configuration again, for the metrics.
fn reread(outcome: Result<ConfigPlan, Refused>) -> RereadOutcome {
    match outcome {
        Ok(plan) if plan.applied => RereadOutcome::Applied,
        Ok(plan) => {
            tracing::info!(
                generation = plan.generation,
                "the configuration was read again; nothing has changed"
            );
            RereadOutcome::Unchanged
        }
        Err(refused) => {
            refused.log();
            RereadOutcome::Refused
        }
    }
}

impl SchedulerTask {
    /// Answers, and puts another configuration into effect if that is asked for.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub(super) async fn configure(&mut self, asked: ConfigAsk) -> Result<(), DaemonError> {
        // The client may have disconnected; the request is carried out all the same.
        match asked {
            ConfigAsk::Show(reply) => drop(reply.send(self.live.info())),
            ConfigAsk::History(reply) => {
                let rows = self.store.configurations().await?;
                let shown = |row| ConfigGeneration { text: None, ..shown(row) };
                let generations = rows.into_iter().map(shown).collect();
                let generation = self.live.generation;
                drop(reply.send(ConfigHistory { generation, generations }));
            }
            ConfigAsk::Generation { generation, reply } => {
                let row = self.row(generation).await?;
                drop(reply.send(row.map(shown).map_err(Into::into)));
            }
            ConfigAsk::Plan { request, reply } => match self.wanted(&request).await? {
                Ok((config, _)) => {
                    let mut plan = self.live.plan(&config);
                    let is_other = config.topology != **self.scheduler.topology();
                    let is_known = is_other && self.board.latest().is_ready;
                    let copy = is_known.then(|| self.scheduler.clone());
                    if !is_other {
                        complete(&mut plan, &self.no_impact());
                    }
                    // Trying it out takes two cycles; the scheduler does not wait for that.
                    tokio::task::spawn_blocking(move || {
                        if let Some(copy) = copy {
                            let command = AdminCommand::Reconfigure(Box::new(config.topology));
                            let impact = copy.try_out(command);
                            let impact = impact.expect("no configuration that is right is refused");
                            complete(&mut plan, &impact);
                        }
                        drop(reply.send(Ok(plan)));
                    });
                }
                Err(refused) => drop(reply.send(Err(refused.into()))),
            },
            ConfigAsk::Apply { request, by, reply } => {
                let outcome = self.apply(request, &by).await?;
                drop(reply.send(outcome.map_err(Into::into)));
            }
            ConfigAsk::Reread => {
                notify::reloading();
                let outcome = self.reread().await?;
                self.board.meters().reread(reread(outcome));
                notify::ready();
            }
        }
        Ok(())
    }

    /// Reads the daemon's own file again, for a signal.
    async fn reread(&mut self) -> Result<Result<ConfigPlan, Refused>, DaemonError> {
        self.apply(ConfigRequest::default(), &Actor::daemon("SIGHUP")).await
    }

    /// Activates another configuration in a single cycle, or refuses it as a whole. The outcome
    /// goes to the audit log, within the transaction of that cycle if there is any.
    async fn apply(
        &mut self,
        request: ConfigRequest,
        by: &Actor,
    ) -> Result<Result<ConfigPlan, Refused>, DaemonError> {
        let asked = audited::configuration(&request);
        let (config, source) = match self.wanted(&request).await? {
            Ok(wanted) => wanted,
            Err(refused) => {
                let row = audited::of(by, "config apply", asked, "refused: it is wrong");
                self.keep(row).await?;
                return Ok(Err(refused));
            }
        };
        let mut plan = self.live.plan(&config);
        if config.file.text == self.live.config.file.text {
            self.keep(audited::of(by, "config apply", asked, "nothing to change")).await?;
            return Ok(Ok(plan));
        }
        let before = self.scheduler.view();
        let is_other = config.topology != **self.scheduler.topology();
        if is_other {
            let topology = Box::new(config.topology.clone());
            self.recorder
                .command(&mut self.scheduler, AdminCommand::Reconfigure(topology))
                .expect("no configuration that is right is refused");
        }
        self.set_pace(&config);
        self.live.adopt(config, before.cycle, source, request.reason.clone());
        let (generation, file) = (self.live.generation, &self.live.config.file.name);
        let waiting = self.live.waiting(&self.live.config);
        let changes = plan.changes.len();
        tracing::info!(generation, source, file, changes, "another configuration is in effect");
        if !waiting.is_empty() {
            tracing::warn!(settings = ?waiting, "these take effect when the daemon is started again");
        }
        let act = AdminRow {
            at_ms: now_ms(),
            action: "reconfigure".to_owned(),
            nodes: Vec::new(),
            reason: request.reason,
        };
        let outcome = format!("done: generation {}", self.live.generation);
        self.audit.push(audited::of(by, "config apply", asked, &outcome));
        self.cycle(vec![act]).await?;
        if !is_other {
            complete(&mut plan, &self.no_impact());
        } else if self.board.latest().is_ready {
            complete(&mut plan, &self.scheduler.impact_since(&before, None));
        }
        Ok(Ok(ConfigPlan { generation: self.live.generation, applied: true, ..plan }))
    }

    /// Impact of a configuration that changes nothing of the cluster.
    fn no_impact(&self) -> CommandImpact {
        CommandImpact { cycle: self.board.latest().view.cycle, ..CommandImpact::default() }
    }

    /// The configuration that is meant, read and checked.
    async fn wanted(&mut self, request: &ConfigRequest) -> Result<Wanted, DaemonError> {
        if let Some(generation) = request.generation {
            let row = match self.row(generation).await? {
                Ok(row) => row,
                Err(refused) => return Ok(Err(refused)),
            };
            let parsed = self.live.sources.parse(&row.name, &row.text);
            return Ok(parsed.map(|config| (config, "return")).map_err(Refused::Wrong));
        }
        Ok(match &request.text {
            Some(text) => {
                let name = request.name.as_deref().unwrap_or("the text that was sent");
                let parsed = self.live.sources.parse(name, text);
                parsed.map(|config| (config, "apply")).map_err(Refused::Wrong)
            }
            None => self.live.sources.load().map(|config| (config, "reread")).map_err(Into::into),
        })
    }

    /// Returns the configuration with this number. A damaged row is a refusal and does not end the
    /// daemon: nothing depends on that row now.
    async fn row(
        &mut self,
        generation: u64,
    ) -> Result<Result<ConfigurationRow, Refused>, DaemonError> {
        match self.store.configuration(generation).await {
            Ok(row) => Ok(row.ok_or(Refused::NoGeneration(generation))),
            Err(error @ StoreError::Damaged { .. }) => Ok(Err(Refused::Damaged(error))),
            Err(error) => Err(error.into()),
        }
    }
}

fn shown(row: ConfigurationRow) -> ConfigGeneration {
    ConfigGeneration {
        generation: row.generation,
        at_ms: row.at_ms,
        cycle: row.cycle,
        source: row.source,
        name: row.name,
        reason: row.reason,
        text: Some(row.text),
    }
}
