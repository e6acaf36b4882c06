//! Scripts for completion in shells, and manual pages. Both are made from the commands themselves,
//! so that they cannot differ from them.

use anyhow::Context;
use clap::CommandFactory;

use super::args::{Cli, Completions, Man};
use super::complete;
use super::failure::Failure;
use super::output::{print, say};

/// Prints the completions of a shell.
///
/// # Errors
///
/// If the shell has none, or standard output cannot be written.
pub fn completions(args: &Completions) -> Result<(), Failure> {
    let script = complete::script(&args.shell.to_string())?;
    let script = script.context("there are no completions for this shell")?;
    say(&String::from_utf8(script).context("the completions are no text")?)?;
    Ok(())
}

/// Prints the manual page, or writes all of them.
///
/// # Errors
///
/// If they cannot be written.
pub fn man(args: &Man) -> Result<(), Failure> {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command()).render(&mut page)?;
        say(&String::from_utf8(page).context("the page is no text")?)?;
        return Ok(());
    };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    clap_mangen::generate_to(command(), folder)
        .with_context(|| format!("cannot write into {}", folder.display()))?;
    let pages = std::fs::read_dir(folder)?.count();
    Ok(print(&format!("{pages} pages are in {}", folder.display()))?)
}

/// Returns the commands without `help`, as every command has the flag.
fn command() -> clap::Command {
    Cli::command().disable_help_subcommand(true)
}
