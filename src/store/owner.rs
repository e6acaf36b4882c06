//! The daemon that owns the store.
//!
//! The lock file keeps a second daemon away, unless it was deleted or the database has a second
//! name. So every transaction also checks a row with the owner's id. A daemon that lost the store
//! to another writes nothing more.

use std::fmt::Write;
use std::io;

use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Row, query};

use super::{AuditRow, Store, StoreError, audit, to_sql};

/// The orchestrator whose publications count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublisherRow {
    /// Name that the orchestrator sends.
    pub name: String,
    /// Incarnation of the orchestrator; never falls.
    pub epoch: u64,
}

impl Store {
    /// Takes the record over: from now on no other daemon writes to it.
    ///
    /// # Errors
    ///
    /// If the file is damaged or cannot be written.
    pub(super) async fn take_over(&mut self) -> Result<(), StoreError> {
        if self.instance.is_some() {
            return Ok(());
        }
        let mut secret = [0_u8; 8];
        let failed = |source| StoreError::of("take over the record", &self.path, source);
        getrandom::fill(&mut secret)
            .map_err(|error| failed(sqlx::Error::Io(io::Error::other(error))))?;
        let instance = secret.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let mut session = self.take_session().await?;
        let sql = "update owner set instance = ?1, epoch = epoch + 1 where id = 1";
        let taken = query(sql).bind(&instance).execute(&mut session.connection).await;
        taken.map_err(|source| StoreError::of("take over the record", &self.path, source))?;
        self.session = Some(session);
        self.instance = Some(instance);
        Ok(())
    }

    /// Returns the orchestrator whose publications count, if it sent its name.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn publisher(&mut self) -> Result<Option<PublisherRow>, StoreError> {
        let mut session = self.take_session().await?;
        let sql = "select name, epoch from publisher where id = 1";
        let row = query(sql).fetch_optional(&mut session.connection).await;
        let read = row.and_then(|row| {
            row.map(|row| {
                let epoch: i64 = row.try_get("epoch")?;
                Ok(PublisherRow { name: row.try_get("name")?, epoch: super::from_sql(epoch) })
            })
            .transpose()
        });
        let publisher = read.map_err(|source| StoreError::of("read", &self.path, source))?;
        self.session = Some(session);
        Ok(publisher)
    }

    /// Stores the orchestrator whose publications count, or that all publications count, together
    /// with its audit rows.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub async fn put_publisher(
        &mut self,
        row: Option<&PublisherRow>,
        audit: &[AuditRow],
    ) -> Result<(), StoreError> {
        let instance = self.instance.clone();
        let mut session = self.take_session().await?;
        let put = async {
            let mut transaction = session.connection.begin_with("begin immediate").await?;
            check_owner(&mut transaction, instance.as_deref()).await?;
            query("delete from publisher").execute(&mut *transaction).await?;
            if let Some(PublisherRow { name, epoch }) = row {
                let sql = "insert into publisher (id, name, epoch) values (1, ?1, ?2)";
                query(sql).bind(name).bind(to_sql(*epoch)).execute(&mut *transaction).await?;
            }
            audit::append(&mut transaction, audit).await?;
            transaction.commit().await
        };
        put.await.map_err(|source| self.unwritten("record the orchestrator", source))?;
        self.session = Some(session);
        Ok(())
    }

    /// Error of a failed write.
    pub(super) fn unwritten(&self, action: &'static str, source: sqlx::Error) -> StoreError {
        if matches!(source, sqlx::Error::RowNotFound) {
            return StoreError::TakenOver { path: self.path.clone() };
        }
        StoreError::of(action, &self.path, source)
    }
}

/// Finds no row if the record is another daemon's by now. To be called within the transaction.
pub(super) async fn check_owner(
    connection: &mut SqliteConnection,
    instance: Option<&str>,
) -> Result<(), sqlx::Error> {
    if let Some(instance) = instance {
        let sql = "select id from owner where id = 1 and instance = ?1";
        query(sql).bind(instance).fetch_one(connection).await?;
    }
    Ok(())
}
