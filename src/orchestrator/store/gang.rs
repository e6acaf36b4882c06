//! Secrets of gangs.

use sqlx::query_scalar;

use super::convert::to_sql;
use super::{CampaignStore, DbError};
use crate::orchestrator::wire::GangKey;

impl CampaignStore {
    /// Reads the secret of a gang's campaign; empty if the campaign has no gang.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn gang_key(&mut self, campaign: u64) -> Result<GangKey, DbError> {
        let failed = self.failed("read the secret of a gang");
        let sql = "select gang_key from campaigns where id = ?1 and gang_key is not null";
        let found = query_scalar(sql).bind(to_sql(campaign)).fetch_optional(&mut self.connection);
        found.await.map(|found| GangKey(found.unwrap_or_default())).map_err(failed)
    }
}

/// A new secret for a gang: 64 hexadecimal digits.
pub(super) fn new_key() -> Result<String, sqlx::Error> {
    let mut random = [0; 32];
    let failed = |error| sqlx::Error::Io(std::io::Error::other(error));
    getrandom::fill(&mut random).map_err(failed)?;
    let digits: Vec<String> = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(digits.concat())
}
