//! The owner's answers about the configuration: what is, what was, what another would come to, and
//! another one in its place.

use std::collections::BTreeSet;

use super::DaemonError;
use super::live::complete;
use super::owner::{Owner, now_ms};
use crate::api::wire::{ConfigGeneration, ConfigHistory, ConfigPlan, ConfigRequest};
use crate::api::{ConfigAsk, ConfigRefusal};
use crate::config::Config;
use crate::scheduler::Command;
use crate::store::{AdminRow, ConfigurationRow};

/// A configuration that is right, and how it came.
type Wanted = Result<(Config, &'static str), ConfigRefusal>;

impl Owner {
    /// Answers, and puts another configuration into effect if that is asked for.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub(super) async fn configure(&mut self, asked: ConfigAsk) -> Result<(), DaemonError> {
        // Whoever asked may have left; what was asked for is done all the same.
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
                drop(reply.send(row.map(shown).ok_or(ConfigRefusal::NoGeneration(generation))));
            }
            ConfigAsk::Plan { request, reply } => match self.wanted(&request).await? {
                Ok((config, _)) => {
                    let mut plan = self.live.plan(&config);
                    let books = self.board.latest().is_ready.then(|| self.scheduler.clone());
                    // Trying it out takes two cycles; the scheduler does not wait for that.
                    tokio::task::spawn_blocking(move || {
                        if let Some(books) = books {
                            complete(&mut plan, &books.try_out(config.topology));
                        }
                        drop(reply.send(Ok(plan)));
                    });
                }
                Err(refusal) => drop(reply.send(Err(refusal))),
            },
            ConfigAsk::Apply { request, reply } => {
                let outcome = self.apply(request).await?;
                drop(reply.send(outcome));
            }
            ConfigAsk::Reread => match self.apply(ConfigRequest::default()).await? {
                Ok(plan) if plan.applied => {}
                Ok(plan) => tracing::info!(
                    generation = plan.generation,
                    "the configuration was read again; nothing has changed"
                ),
                Err(refusal) => refuse_aloud(&refusal),
            },
        }
        Ok(())
    }

    /// Puts another configuration into effect, in one cycle, or refuses it whole.
    async fn apply(
        &mut self,
        request: ConfigRequest,
    ) -> Result<Result<ConfigPlan, ConfigRefusal>, DaemonError> {
        let (config, source) = match self.wanted(&request).await? {
            Ok(wanted) => wanted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut plan = self.live.plan(&config);
        if config.file.text == self.live.config.file.text {
            return Ok(Ok(plan));
        }
        let before = self.scheduler.view();
        if config.topology != **self.scheduler.topology() {
            let topology = Box::new(config.topology.clone());
            self.scheduler
                .command(Command::Reconfigure(topology))
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
        self.cycle(vec![act]).await?;
        if self.board.latest().is_ready {
            complete(&mut plan, &self.scheduler.impact_since(&before, &BTreeSet::new()));
        }
        Ok(Ok(ConfigPlan { generation: self.live.generation, applied: true, ..plan }))
    }

    /// The configuration that is meant, read and checked.
    async fn wanted(&mut self, request: &ConfigRequest) -> Result<Wanted, DaemonError> {
        if let Some(generation) = request.generation {
            let Some(row) = self.row(generation).await? else {
                return Ok(Err(ConfigRefusal::NoGeneration(generation)));
            };
            let parsed = self.live.sources.parse(&row.name, &row.text);
            return Ok(parsed.map(|config| (config, "return")).map_err(ConfigRefusal::Wrong));
        }
        Ok(match &request.text {
            Some(text) => {
                let name = request.name.as_deref().unwrap_or("the text that was sent");
                let parsed = self.live.sources.parse(name, text);
                parsed.map(|config| (config, "apply")).map_err(ConfigRefusal::Wrong)
            }
            None => self.live.sources.load().map(|config| (config, "reread")).map_err(Into::into),
        })
    }

    async fn row(&mut self, generation: u64) -> Result<Option<ConfigurationRow>, DaemonError> {
        let rows = self.store.configurations().await?;
        Ok(rows.into_iter().find(|row| row.generation == generation))
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

/// Nobody waits for an answer, so the log has to say it.
fn refuse_aloud(refusal: &ConfigRefusal) {
    let kept = "the configuration is refused; the one before stays in effect";
    match refusal {
        ConfigRefusal::Wrong(problems) => {
            for problem in problems.iter() {
                let (code, line) = (problem.code.as_str(), problem.line);
                tracing::error!(code, line, remedy = problem.remedy, "{}", problem.message);
            }
            tracing::error!(file = problems.name(), problems = problems.iter().count(), "{kept}");
        }
        ConfigRefusal::Unreadable(error) => tracing::error!(%error, "{kept}"),
        ConfigRefusal::NoGeneration(generation) => tracing::error!(generation, "{kept}"),
    }
}
