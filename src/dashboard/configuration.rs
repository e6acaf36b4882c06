//! Page of the configuration: each setting in effect, and the earlier generations.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::Dashboard;
use super::frame::{Ask, Page, PageError, PageQuery};
use super::words;
use crate::api::wire::{ConfigGeneration, ConfigSetting};
use crate::api::{ApiError, Code, config};

/// Latest generations on the page.
const GENERATIONS: usize = 50;

/// Longest wait for the settings in effect. Only the owner of the scheduler knows them, and it
/// answers between two cycles.
const PATIENCE: Duration = Duration::from_secs(2);

/// Selection of settings in the address.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConfigParams {
    /// `set`: only settings with an origin other than the default; any other text: all.
    show: String,
}

#[derive(Template)]
#[template(path = "config_head.html")]
struct ConfigurationHead<'a> {
    params: &'a ConfigParams,
}

#[derive(Template)]
#[template(path = "config.html")]
struct LiveConfiguration {
    generation: u64,
    file: String,
    sections: Vec<SettingSection>,
    waiting: Vec<String>,
    generations: Vec<GenerationRow>,
}

/// Settings whose keys begin alike.
struct SettingSection {
    name: String,
    settings: Vec<ConfigSetting>,
}

struct GenerationRow {
    info: ConfigGeneration,
    at: String,
    is_in_effect: bool,
}

/// The page.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    PageQuery(params): PageQuery<ConfigParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let api = || State(dashboard.api.clone());
    let both = async {
        Ok::<_, ApiError>((config::get_config(api()).await?, config::get_generations(api()).await?))
    };
    let answers = tokio::time::timeout(PATIENCE, both).await.unwrap_or_else(|_| {
        Err(ApiError::new(Code::TimedOut, "the scheduler is busy; load the page again"))
    });
    let (axum::Json(info), axum::Json(history)) = answers?;
    let is_shown = |setting: &ConfigSetting| params.show != "set" || setting.origin != "default";
    let mut sections: Vec<SettingSection> = Vec::new();
    for setting in info.settings.into_iter().filter(is_shown) {
        let name = section_of(&setting.setting).to_owned();
        match sections.last_mut().filter(|section| section.name == name) {
            Some(section) => section.settings.push(setting),
            None => sections.push(SettingSection { name, settings: vec![setting] }),
        }
    }
    let generations = history.generations.into_iter().rev().take(GENERATIONS);
    let live = LiveConfiguration {
        generation: info.generation,
        file: info.file.unwrap_or(info.name),
        sections,
        waiting: info.waiting_for_restart,
        generations: generations
            .map(|info| GenerationRow {
                at: words::time(info.at_ms),
                is_in_effect: info.generation == history.generation,
                info,
            })
            .collect(),
    };
    let head = ConfigurationHead { params: &params };
    Page { title: "Configuration", section: "/config", head, live }.answer(&ask)
}

/// `body_bytes` of `daemon.limits.body_bytes`.
pub(super) fn short(setting: &str) -> &str {
    setting.rsplit_once('.').map_or(setting, |(_, key)| key)
}

/// `daemon.limits` of `daemon.limits.body_bytes`.
fn section_of(setting: &str) -> &str {
    setting.rsplit_once('.').map_or("", |(section, _)| section)
}
