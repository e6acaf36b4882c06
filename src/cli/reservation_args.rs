//! Arguments of `reservation`.

use clap::{Args, Subcommand};

use super::node_act_args::WindowFlags;
use super::questions::QueryFlags;
use super::remote::Remote;
use super::time_spec::WindowTimes;

/// An action on reservations.
#[derive(Debug, Subcommand)]
pub enum ReservationAction {
    /// Keep nodes for fixed-share jobs that name the reservation, for a span of time
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Box<ReservationCreate>),
    /// List reservations and maintenances that are open or to come, the first start first
    #[command(visible_alias = "ls", after_help = LIST_EXAMPLES)]
    List(ReservationListArgs),
    /// Show a reservation or maintenance
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ReservationShow),
    /// Delete a reservation or maintenance: its nodes take work as before
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(ReservationDelete),
}

const CREATE_EXAMPLES: &str = "\
Examples:
  apportion reservation create r1 --nodes 'n[1-4]' --start 18:00 --for 2h --users cyd
  apportion reservation create course --nodes 'r1*' --start 2026-12-01T09:00 --end 17:00 --dry-run
  apportion reservation create r2 --nodes n7 --start +1h --for 1d --classes urgent --force

A job runs in it whose publication has \"reservation\": \"r1\". Fair-share work continues on the
nodes and makes room for such jobs. Work that is never preempted and ends too late is in the way:
the command is refused, or with --force the work stays. Times are of the local time zone.";

const LIST_EXAMPLES: &str = "\
Examples:
  apportion reservation list
  apportion reservation list -o wide
  apportion reservation list -o jsonl | jq .name";

const SHOW_EXAMPLES: &str = "\
Examples:
  apportion reservation show r1
  apportion reservation show r1 --json | jq .nodes";

const DELETE_EXAMPLES: &str = "\
Examples:
  apportion reservation delete r1";

/// Creates an advance reservation.
#[derive(Debug, Args)]
pub struct ReservationCreate {
    /// The name, to which jobs refer
    pub name: String,
    /// The nodes: names, host lists or patterns, such as node[01-08,12] or 'r1*'
    #[arg(long, required = true, value_name = "HOSTLIST")]
    pub nodes: Vec<String>,
    /// Start and end.
    #[command(flatten)]
    pub times: WindowTimes,
    /// Users whose jobs may use it; without it, all
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    pub users: Vec<String>,
    /// Classes whose jobs may use it; without it, all
    #[arg(long, value_name = "CLASS", value_delimiter = ',')]
    pub classes: Vec<String>,
    /// The reason, shown with the reservation
    #[arg(long, short, default_value = "", hide_default_value = true)]
    pub reason: String,
    /// Agreement to the effects.
    #[command(flatten)]
    pub flags: WindowFlags,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

/// Lists reservations.
#[derive(Debug, Args)]
pub struct ReservationListArgs {
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

/// Shows a reservation.
#[derive(Debug, Args)]
pub struct ReservationShow {
    /// The name of the reservation or maintenance
    #[arg(value_name = "NAME")]
    pub reservation: String,
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

/// Deletes a reservation.
#[derive(Debug, Args)]
pub struct ReservationDelete {
    /// The name of the reservation or maintenance
    #[arg(value_name = "NAME")]
    pub reservation: String,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}
