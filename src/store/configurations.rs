//! The configurations there were.

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, query};

use super::sum::{RowSum, check};
use super::{ConfigurationRow, Store, StoreError, from_sql, to_sql};

/// Maximum number of stored configurations.
pub const CONFIGURATIONS_KEPT: u32 = 1000;

impl Store {
    /// Returns the stored configurations, oldest first, without their texts. A changed text is
    /// noticed when it is read.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn configurations(&mut self) -> Result<Vec<ConfigurationRow>, StoreError> {
        let sql = "select generation, at_ms, cycle, source, name, '' as text, reason, null as sum
                   from configurations order by generation";
        let mut session = self.take_session().await?;
        let rows = query(sql).fetch_all(&mut session.connection).await;
        let rows = rows.and_then(|rows| rows.iter().map(row_from).collect());
        self.read(session, rows)
    }

    /// Returns the newest stored configuration.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or it is not what was written.
    pub async fn last_configuration(&mut self) -> Result<Option<ConfigurationRow>, StoreError> {
        let sql =
            "select generation, at_ms, cycle, source, name, text, reason, sum from configurations
                   order by generation desc limit 1";
        let mut session = self.take_session().await?;
        let row = query(sql).fetch_optional(&mut session.connection).await;
        let row = row.and_then(|row| row.as_ref().map(row_from).transpose());
        self.read(session, row)
    }

    /// Returns the configuration with this number, if it is stored.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or it is not what was written.
    pub async fn configuration(
        &mut self,
        generation: u64,
    ) -> Result<Option<ConfigurationRow>, StoreError> {
        let sql =
            "select generation, at_ms, cycle, source, name, text, reason, sum from configurations
                   where generation = ?1";
        let mut session = self.take_session().await?;
        let row = query(sql).bind(to_sql(generation)).fetch_optional(&mut session.connection).await;
        let row = row.and_then(|row| row.as_ref().map(row_from).transpose());
        self.read(session, row)
    }

    /// Stores a configuration outside of a cycle: the daemon's configuration at its start.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub async fn add_configuration(&mut self, row: &ConfigurationRow) -> Result<(), StoreError> {
        let mut session = self.sound_session().await?;
        put_configuration(&mut session.connection, row)
            .await
            .map_err(|source| StoreError::of("record a configuration", &self.path, source))?;
        self.session = Some(session);
        Ok(())
    }

    fn read<T>(
        &mut self,
        session: super::Session,
        result: Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        let read = result
            .map_err(|source| StoreError::of("read the configurations", &self.path, source))?;
        self.session = Some(session);
        Ok(read)
    }
}

pub(super) async fn put_configuration(
    connection: &mut SqliteConnection,
    row: &ConfigurationRow,
) -> Result<(), sqlx::Error> {
    let sql = "insert into configurations
                   (generation, at_ms, cycle, source, name, text, reason, sum)
               values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    query(sql)
        .bind(to_sql(row.generation))
        .bind(row.at_ms)
        .bind(to_sql(row.cycle))
        .bind(&row.source)
        .bind(&row.name)
        .bind(&row.text)
        .bind(&row.reason)
        .bind(sum_of(row))
        .execute(&mut *connection)
        .await?;
    let sql = "delete from configurations where generation <= (select max(generation) from configurations) - ?1";
    query(sql).bind(CONFIGURATIONS_KEPT).execute(connection).await?;
    Ok(())
}

fn sum_of(row: &ConfigurationRow) -> Vec<u8> {
    let ConfigurationRow { generation, at_ms, cycle, source, name, text, reason } = row;
    let sum = RowSum::after(&[]).number(to_sql(*generation)).number(*at_ms).number(to_sql(*cycle));
    sum.text(source).text(name).text(text).maybe(reason.as_deref()).end()
}

fn row_from(row: &SqliteRow) -> Result<ConfigurationRow, sqlx::Error> {
    let read = ConfigurationRow {
        generation: row.try_get("generation").map(from_sql)?,
        at_ms: row.try_get("at_ms")?,
        cycle: row.try_get("cycle").map(from_sql)?,
        source: row.try_get("source")?,
        name: row.try_get("name")?,
        text: row.try_get("text")?,
        reason: row.try_get("reason")?,
    };
    check(row, &sum_of(&read), &format!("configuration {} on record", read.generation))?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection, raw_sql};

    use super::*;
    use crate::store::CycleRecord;

    fn row(generation: u64) -> ConfigurationRow {
        ConfigurationRow {
            generation,
            at_ms: 1,
            cycle: 2,
            source: "apply".to_owned(),
            name: "new.toml".to_owned(),
            text: format!("# {generation}"),
            reason: Some("a test".to_owned()),
        }
    }

    #[tokio::test]
    async fn one_that_was_changed_is_named_and_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let mut store = Store::open(&path).await.unwrap();
        for generation in 1..=3 {
            store.add_configuration(&row(generation)).await.unwrap();
        }
        for change in [
            "at_ms = 2",
            "cycle = 3",
            "source = 'start'",
            "name = 'old.toml'",
            "text = '# 3'",
            "reason = null",
            "sum = x''",
        ] {
            let session = store.session.as_mut().unwrap();
            let sql = format!("update configurations set {change} where generation = 2");
            raw_sql(AssertSqlSafe(sql)).execute(&mut session.connection).await.unwrap();
            let error = store.configuration(2).await.unwrap_err().to_string();
            let says = "is damaged (configuration 2 on record was changed after it was written)";
            assert!(error.contains(says) && error.contains("state.db"), "{change}: {error}");
            assert_eq!(store.configurations().await.unwrap().len(), 3);
            assert_eq!(store.configuration(1).await.unwrap(), Some(row(1)));
            assert_eq!(store.last_configuration().await.unwrap(), Some(row(3)));
            let session = store.session.as_mut().unwrap();
            let connection = &mut session.connection;
            query("delete from configurations where generation = 2")
                .execute(&mut *connection)
                .await
                .unwrap();
            put_configuration(connection, &row(2)).await.unwrap();
        }
        // The state that an older version left.
        let sql = "update configurations set sum = null, text = '' where generation = 2";
        let session = store.session.as_mut().unwrap();
        query(sql).execute(&mut session.connection).await.unwrap();
        assert_eq!(store.configuration(2).await.unwrap().unwrap().text, "");
    }

    #[tokio::test]
    async fn the_newest_stay_on_record_and_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("state.db")).await.unwrap();
        assert_eq!(store.last_configuration().await.unwrap(), None);
        store.add_configuration(&row(1)).await.unwrap();
        let record =
            CycleRecord { cycle: 1, configuration: Some(row(2)), ..CycleRecord::default() };
        let record = CycleRecord { next_share: 1, ..record };
        store.commit(record).await.unwrap();
        let without_text = |row| ConfigurationRow { text: String::new(), ..row };
        assert_eq!(store.configurations().await.unwrap(), [row(1), row(2)].map(without_text));
        assert_eq!(store.configuration(1).await.unwrap(), Some(row(1)));

        let kept = u64::from(CONFIGURATIONS_KEPT);
        let mut session = store.sound_session().await.unwrap();
        let mut transaction = session.connection.begin().await.unwrap();
        for generation in 3..=kept + 1 {
            put_configuration(&mut transaction, &row(generation)).await.unwrap();
        }
        transaction.commit().await.unwrap();
        store.session = Some(session);
        let rows = store.configurations().await.unwrap();
        assert_eq!((rows.len(), rows[0].generation), (1000, 2), "the first has gone");
        assert_eq!(store.configuration(1).await.unwrap(), None);
        assert_eq!(store.last_configuration().await.unwrap(), Some(row(kept + 1)));
    }
}
