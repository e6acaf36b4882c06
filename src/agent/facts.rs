//! Facts of this system: its name, its memory, and its boot.

use crate::model::Mebibytes;

/// Reason why the facts of the node cannot be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum FactsError {
    #[cfg(target_os = "linux")]
    #[error("cannot read {what} from /proc")]
    Unreadable { what: &'static str, source: procfs::ProcError },
    #[cfg(not(target_os = "linux"))]
    #[error("the agent runs on Linux only: it reads /proc")]
    NotLinux,
    #[error("the host has no name; give a name with --node")]
    Nameless,
    #[error(
        "{reserved} MB of {memory} MB are reserved, so no memory is left to offer; use a smaller --reserve"
    )]
    NothingLeft { memory: u64, reserved: u64 },
}

/// Facts that a heartbeat reports of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// Name of the node.
    pub name: String,
    /// Memory it offers.
    pub memory: Mebibytes,
    /// Memory that is free at the moment.
    pub available: Mebibytes,
}

/// Reads the node's facts. `name` and `memory` replace the system's own values if given; `reserved`
/// is subtracted from the memory.
pub(super) fn node(
    name: Option<&str>,
    memory: Option<Mebibytes>,
    reserved: Mebibytes,
) -> Result<HostFacts, FactsError> {
    let (total, available) = memory_bytes()?;
    let mebibytes = |bytes: u64| Mebibytes(bytes >> 20);
    let total = memory.unwrap_or(mebibytes(total));
    let memory = Mebibytes(total.0.saturating_sub(reserved.0));
    if memory.0 == 0 {
        return Err(FactsError::NothingLeft { memory: total.0, reserved: reserved.0 });
    }
    let name = name.map_or_else(own_name, |name| Ok(name.to_owned()))?;
    Ok(HostFacts { name, memory, available: mebibytes(available) })
}

/// The name up to the first dot: nodepools list nodes by their short names.
fn own_name() -> Result<String, FactsError> {
    let name = host_name()?;
    let short = name.split('.').next().unwrap_or_default();
    if short.is_empty() || short == "(none)" || short == "localhost" {
        return Err(FactsError::Nameless);
    }
    Ok(short.to_owned())
}

/// Returns the agent's incarnation, different at every start: the boot, the time since the boot,
/// and the process.
#[cfg(target_os = "linux")]
pub(super) fn life() -> Result<String, FactsError> {
    use procfs::{Current, Uptime};

    let system = boot()?;
    let uptime = Uptime::current();
    let uptime = uptime.map_err(|source| FactsError::Unreadable { what: "the uptime", source })?;
    let process = std::process::id();
    Ok(format!("{system}-{}-{process}", uptime.uptime_duration().as_millis()))
}

/// Returns the boot id of the system.
///
/// # Errors
///
/// If the boot id cannot be read.
#[cfg(target_os = "linux")]
pub fn boot() -> Result<String, FactsError> {
    let boot = procfs::sys::kernel::random::boot_id();
    let boot = boot.map_err(|source| FactsError::Unreadable { what: "the boot id", source })?;
    Ok(boot.trim().to_owned())
}

/// All memory, and the available part, in bytes.
#[cfg(target_os = "linux")]
fn memory_bytes() -> Result<(u64, u64), FactsError> {
    use procfs::{Current, Meminfo};

    let memory = Meminfo::current();
    let memory = memory.map_err(|source| FactsError::Unreadable { what: "the memory", source })?;
    Ok((memory.mem_total, memory.mem_available.unwrap_or(memory.mem_free)))
}

#[cfg(target_os = "linux")]
fn host_name() -> Result<String, FactsError> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = name.map_err(|error| FactsError::Unreadable {
        what: "the host's name",
        source: error.into(),
    })?;
    Ok(name.trim().to_owned())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn life() -> Result<String, FactsError> {
    Err(FactsError::NotLinux)
}

#[cfg(not(target_os = "linux"))]
fn memory_bytes() -> Result<(u64, u64), FactsError> {
    Err(FactsError::NotLinux)
}

#[cfg(not(target_os = "linux"))]
fn host_name() -> Result<String, FactsError> {
    Err(FactsError::NotLinux)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_says_what_it_has() {
        let found = node(Some("n1"), None, Mebibytes(1)).unwrap();
        assert_eq!(found.name, "n1");
        assert!(0 < found.available.0 && found.available.0 <= found.memory.0 + 1, "{found:?}");
        let given = node(Some("n1"), Some(Mebibytes(5)), Mebibytes(2)).unwrap();
        assert_eq!(given.memory, Mebibytes(3));
        let none = node(Some("n1"), Some(Mebibytes(5)), Mebibytes(5)).unwrap_err();
        assert!(none.to_string().contains("--reserve"), "{none}");
        assert!(life().unwrap().len() > 36);
    }
}
