//! Proofs that a side knows the secret of the campaign: HMAC-SHA-256 over the numbers that both sides
//! drew for this connection.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::orchestrator::wire::GangKey;

/// A side of a connection. A proof of one side is no proof of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProofSide {
    Server,
    Shell,
}

/// Numbers that are drawn anew for each connection, and the command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proven<'a> {
    pub server: &'a str,
    pub shell: &'a str,
    /// The command; empty in the proof of the server.
    pub command: &'a str,
}

fn sum(key: &GangKey, side: ProofSide, proven: Proven<'_>) -> Option<Hmac<Sha256>> {
    if key.0.is_empty() {
        return None;
    }
    let mut sum = Hmac::<Sha256>::new_from_slice(key.0.as_bytes()).ok()?;
    let side = match side {
        ProofSide::Server => "server",
        ProofSide::Shell => "shell",
    };
    for part in [side, proven.server, proven.shell, proven.command] {
        // The length keeps parts apart.
        sum.update(&crate::model::count(part.as_bytes()).to_be_bytes());
        sum.update(part.as_bytes());
    }
    Some(sum)
}

/// Returns the proof of a side as hexadecimal digits; empty without a secret.
pub(super) fn prove(key: &GangKey, side: ProofSide, proven: Proven<'_>) -> String {
    let sum = sum(key, side, proven).map(|sum| sum.finalize().into_bytes());
    sum.map(|sum| hex(&sum)).unwrap_or_default()
}

/// True if `proof` is the proof of that side. The time of the comparison tells nothing.
pub(super) fn holds(key: &GangKey, side: ProofSide, proven: Proven<'_>, proof: &str) -> bool {
    let digits = |place: usize| u8::from_str_radix(proof.get(place..place + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..proof.len()).step_by(2).map(digits).collect();
    let sum = sum(key, side, proven);
    sum.zip(bytes).is_some_and(|(sum, bytes)| sum.verify_slice(&bytes).is_ok())
}

/// Draws a number for a connection.
///
/// # Errors
///
/// If the system has no random numbers.
pub(super) fn draw() -> std::io::Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(std::io::Error::other)?;
    Ok(hex(&random))
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_for_one_side_one_connection_and_one_command() {
        let (key, other) = (GangKey("ab".repeat(32)), GangKey("cd".repeat(32)));
        let proven = Proven { server: "1", shell: "2", command: "hostname" };
        let proof = prove(&key, ProofSide::Shell, proven);
        assert_eq!(proof.len(), 64);
        assert!(holds(&key, ProofSide::Shell, proven, &proof));
        assert!(!holds(&key, ProofSide::Server, proven, &proof));
        assert!(!holds(&other, ProofSide::Shell, proven, &proof));
        for wrong in [
            Proven { server: "12", shell: "", ..proven },
            Proven { shell: "3", ..proven },
            Proven { command: "hostname ", ..proven },
        ] {
            assert!(!holds(&key, ProofSide::Shell, wrong, &proof), "{wrong:?}");
        }
        for bad in ["", "zz", "é1", &proof[..63], &proof[..62]] {
            assert!(!holds(&key, ProofSide::Shell, proven, bad), "{bad}");
        }
        let none = GangKey::default();
        assert!(!holds(&none, ProofSide::Shell, proven, &prove(&none, ProofSide::Shell, proven)));
        assert_ne!(draw().unwrap(), draw().unwrap());
        assert!(!format!("{key:?}").contains("ab"));
    }
}
