//! The configuration in effect, its predecessors, and the differences to another configuration.
//!
//! The file decides at a start. Each configuration that takes effect gets the next number. Its text
//! is stored in the transaction of the first cycle under it.

use std::path::Path;
use std::sync::Arc;

use super::clock::{now_ms, time_is};
use super::hours::HoursTeller;
use crate::api::Published;
use crate::api::wire::{self, ConfigChange, ConfigPlan, NodeMove};
use crate::config::{Change, ClassCalendar, Config, Listing, Sources};
use crate::journal::JournalingScheduler;
use crate::scheduler::{CommandImpact, Scheduler, SchedulerEvent};
use crate::store::{ConfigurationRow, Store, StoreError};

/// Maximum number of jobs or nodes listed in an answer.
const NAMED_MAX: usize = 1000;

/// Settings of the daemon that take effect at once; its other settings wait for a restart.
const LIVE: [&str; 3] = ["daemon.cycle_period", "daemon.heartbeat_interval", "daemon.audit_every"];

/// The configuration in effect.
#[derive(Debug)]
pub struct LiveConfig {
    /// Sources from which the configuration is read.
    pub sources: Sources,
    /// Configuration in effect, except for the settings that wait for a restart.
    pub config: Config,
    /// Number of the configuration.
    pub generation: u64,
    /// Hours of the classes, shared with readers.
    calendar: Arc<ClassCalendar>,
    /// Day for which the scheduler knows the hours of classes.
    hours: HoursTeller,
    /// Row of the configuration while it is not stored yet.
    new: Option<ConfigurationRow>,
    /// Settings at the start of the daemon.
    started: Listing,
}

impl LiveConfig {
    /// Activates `config` at the start. It gets the next number if it differs from the last stored
    /// configuration.
    ///
    /// # Errors
    ///
    /// If the record cannot be read or written.
    pub async fn begin(
        store: &mut Store,
        config: Config,
        sources: Sources,
        cycle: u64,
    ) -> Result<LiveConfig, StoreError> {
        let last = store.last_configuration().await?;
        let started = config.listing.clone();
        let calendar = Arc::new(config.calendar.clone());
        let mut live = LiveConfig {
            sources,
            config,
            generation: 0,
            calendar,
            hours: HoursTeller::default(),
            new: None,
            started,
        };
        if let Some(last) = last {
            live.generation = last.generation;
            if last.text == live.config.file.text {
                return Ok(live);
            }
            tracing::warn!(
                file = live.config.file.name,
                before = last.generation,
                generation = last.generation + 1,
                "the configuration differs from the last in effect; `apportion config apply \
                 --generation` returns to that"
            );
        }
        // Stored after the check of the whole file: the last schedule must be served before.
        live.new = Some(live.next(cycle, "start", None));
        Ok(live)
    }

    /// Puts `config` into effect, and keeps it for the record.
    pub fn adopt(&mut self, config: Config, cycle: u64, source: &str, reason: Option<String>) {
        self.calendar = Arc::new(config.calendar.clone());
        self.config = config;
        self.hours = HoursTeller::default();
        self.new = Some(self.next(cycle, source, reason));
    }

    /// Copies `before`, with what readers see of this configuration.
    pub fn published_after(&self, before: &Published) -> Published {
        Published {
            generation: self.generation,
            calendar: Arc::clone(&self.calendar),
            is_resuming: false,
            ..before.clone()
        }
    }

    /// Tells the scheduler the time, and before it the hours of classes if they are news.
    pub fn tell_time(&mut self, scheduler: &mut Scheduler, recorder: &mut JournalingScheduler) {
        let hours = self.hours.news(&self.config.calendar, scheduler.hours(), now_ms());
        if let Some(hours) = hours {
            recorder.record(scheduler, SchedulerEvent::ClassHours { hours });
        }
        recorder.record(scheduler, time_is());
    }

    /// Takes out the row to store with the next cycle.
    pub fn take_unsaved(&mut self) -> Option<ConfigurationRow> {
        self.new.take()
    }

    fn next(&mut self, cycle: u64, source: &str, reason: Option<String>) -> ConfigurationRow {
        self.generation += 1;
        ConfigurationRow {
            generation: self.generation,
            at_ms: now_ms(),
            cycle,
            source: source.to_owned(),
            name: self.config.file.name.clone(),
            text: self.config.file.text.clone(),
            reason,
        }
    }

    /// Lists the differences of `config`, without its effects on jobs.
    pub fn plan(&self, config: &Config) -> ConfigPlan {
        let changes = self.config.listing.changes_to(&config.listing);
        let waiting = self.waiting(config);
        let mut notes = Vec::new();
        if !waiting.is_empty() {
            notes.push(format!("only at a restart: {}", waiting.join(", ")));
        }
        if config.calendar != self.config.calendar {
            notes.push(
                "the hours of classes change; what follows from that is not shown".to_owned(),
            );
        }
        notes.extend(self.sources.file().and_then(|file| other_file(file, config)));
        ConfigPlan {
            generation: self.generation,
            applied: false,
            changes: changes.into_iter().map(|one| change(one, &waiting)).collect(),
            moved: Vec::new(),
            impact: None,
            notes,
        }
    }

    /// Settings of `config` that differ from the daemon's start and wait for a restart.
    pub fn waiting(&self, config: &Config) -> Vec<String> {
        let changes = self.started.changes_to(&config.listing).into_iter();
        changes.map(|change| change.path).filter(|path| !is_live(path)).collect()
    }

    /// Builds the description of the configuration for clients.
    pub fn info(&self) -> wire::ConfigInfo {
        let setting = |row: &crate::config::Row| wire::ConfigSetting {
            setting: row.path.clone(),
            value: row.value.clone(),
            origin: row.origin.to_string(),
        };
        wire::ConfigInfo {
            generation: self.generation,
            name: self.config.file.name.clone(),
            file: self.sources.file().map(|file| file.display().to_string()),
            settings: self.config.listing.rows().map(setting).collect(),
            waiting_for_restart: self.waiting(&self.config),
        }
    }
}

/// True if a setting takes effect at once.
fn is_live(path: &str) -> bool {
    let is_of_a_start = ["daemon.", "orchestrator.", "grid.", "cluster."]
        .iter()
        .any(|start| path.starts_with(start))
        || path.starts_with("user.") && path.ends_with(".grid_weight");
    !is_of_a_start || LIVE.contains(&path)
}

/// Note that the file differs from `config`, if it does.
fn other_file(file: &Path, config: &Config) -> Option<String> {
    let is_same = std::fs::read(file).is_ok_and(|text| text == config.file.text.as_bytes());
    (!is_same).then(|| {
        format!(
            "{} differs from this configuration, and is read at the next start; save this configuration there too",
            file.display()
        )
    })
}

fn change(change: Change, waiting: &[String]) -> ConfigChange {
    let at_restart = waiting.contains(&change.path);
    let Change { path: setting, before, after } = change;
    ConfigChange { setting, before, after, at_restart }
}

/// Enters what a configuration means for the live load.
pub fn complete(plan: &mut ConfigPlan, impact: &CommandImpact) {
    let moved = impact.moved.iter().take(NAMED_MAX).map(|(node, from, to)| NodeMove {
        node: node.to_string(),
        from: from.to_string(),
        to: to.to_string(),
    });
    plan.moved = moved.collect();
    let evicted = impact
        .evicted
        .iter()
        .take(NAMED_MAX)
        .map(|(&(job, why), &shares)| wire::JobEviction { job: job.0, shares, why: why.into() });
    let parked = impact.parked.iter().take(NAMED_MAX);
    let refused = impact.refused.iter().take(NAMED_MAX);
    plan.impact = Some(wire::ConfigImpact {
        cycle: impact.cycle,
        shares_evicted: impact.evicted.values().sum(),
        evicted: evicted.collect(),
        work_lost_ms: impact.work_lost,
        shares_parked: impact.parked.values().sum(),
        parked: parked.map(|(job, &shares)| wire::JobParked { job: job.0, shares }).collect(),
        refused: refused
            .map(|(job, reason)| wire::JobRefused { job: job.0, reason: reason.clone() })
            .collect(),
        blacklisted: impact.blacklisted.iter().take(NAMED_MAX).map(ToString::to_string).collect(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Administrators learn from the sample, before they try, which settings wait.
    #[test]
    fn the_sample_says_what_takes_effect_at_a_restart_only() {
        let schema = crate::config::schema();
        let daemon = &schema["properties"]["daemon"]["properties"];
        let mut waiting = 0;
        let sections = [
            ("daemon", daemon),
            ("daemon.journal", &daemon["journal"]["properties"]),
            ("daemon.limits", &daemon["limits"]["properties"]),
            ("daemon.access", &daemon["access"]["properties"]),
            ("orchestrator", &schema["properties"]["orchestrator"]["properties"]),
            ("grid", &schema["properties"]["grid"]["properties"]),
        ];
        for (section, settings) in sections {
            for (key, setting) in settings.as_object().unwrap() {
                let path = format!("{section}.{key}");
                let says_so = setting["description"]
                    .as_str()
                    .is_some_and(|text| text.contains("At a restart only."));
                let is_section = setting["properties"].is_object();
                assert_eq!(says_so || is_section, !is_live(&path), "{path}");
                waiting += usize::from(says_so);
            }
        }
        assert!(10 < waiting, "{waiting}");
    }
}
