//! `apportion config`: files checked, shown and translated; a running daemon's replaced.

pub mod args;
mod import;
mod live;
mod show;

use args::ConfigAction;
use tokio::runtime::Builder;

use super::failure::{Failure, FailureKind};
use super::output::print;
use super::settings::{load, locate};
use super::wait;
use crate::config::{self, Config};

/// Runs the command.
///
/// # Errors
///
/// If a configuration is wrong.
pub fn run(action: &ConfigAction) -> Result<(), Failure> {
    match action {
        ConfigAction::Check(local) => {
            let Config { topology, file, .. } = read(local)?;
            let (classes, pools) = (topology.classes.len(), topology.pools.len());
            let message = format!("{} is right; classes: {classes}, nodepools: {pools}", file.name);
            Ok(print(&message)?)
        }
        ConfigAction::Show(args) if args.running => {
            wait(Builder::new_current_thread(), show::running(args))
        }
        ConfigAction::Show(args) => show::run(args, &read(&args.local)?),
        ConfigAction::ImportDucc(args) => import::run(args),
        ConfigAction::Plan(args) => wait(Builder::new_current_thread(), live::plan(args)),
        ConfigAction::Apply(args) => wait(Builder::new_current_thread(), live::apply(args)),
        ConfigAction::History(args) => wait(Builder::new_current_thread(), live::history(args)),
        ConfigAction::Sample => Ok(print(config::SAMPLE)?),
        ConfigAction::Schema => Ok(print(&serde_json::to_string_pretty(&config::schema())?)?),
    }
}

fn read(local: &args::Local) -> Result<Config, Failure> {
    let path = locate(local.file.as_deref());
    Ok(load(&path, &local.overrides.set, FailureKind::Refused)?.1)
}
