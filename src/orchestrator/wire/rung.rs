//! The ways memory limits are enforced on a node.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The way memory limits are enforced on a node, best first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Rung {
    /// By the kernel, in a transient service of the system.
    Systemd,
    /// By the kernel, in a transient service of the user's manager.
    SystemdUser,
    /// By the kernel, in a cgroup of version 2.
    Cgroup2,
    /// By the kernel, in a cgroup of version 1.
    Cgroup1,
    /// By the slot, which samples the memory of its tasks.
    Watched,
}

impl Rung {
    /// True if the kernel enforces the limit.
    pub fn is_kernel(self) -> bool {
        self != Rung::Watched
    }

    /// Returns the name for texts.
    pub fn name(self) -> &'static str {
        match self {
            Rung::Systemd => "systemd",
            Rung::SystemdUser => "systemd user",
            Rung::Cgroup2 => "cgroup v2",
            Rung::Cgroup1 => "cgroup v1",
            Rung::Watched => "watched",
        }
    }

    /// Returns the name, and the enforcer of the limit.
    pub fn words(self) -> String {
        let by = if self.is_kernel() { ", by the kernel" } else { " by each slot, every 250 ms" };
        format!("{}{by}", self.name())
    }

    /// The word on the wire and in tables.
    pub fn word(self) -> &'static str {
        match self {
            Rung::Systemd => "systemd",
            Rung::SystemdUser => "systemd-user",
            Rung::Cgroup2 => "cgroup2",
            Rung::Cgroup1 => "cgroup1",
            Rung::Watched => "watched",
        }
    }
}
