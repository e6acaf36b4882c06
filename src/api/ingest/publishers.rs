//! Whose publications count: two orchestrators that do not know of each other must not end each
//! other's work.
//!
//! A publication may say the name of its orchestrator and its epoch. From the first that does, only
//! that orchestrator is heard, until an operator hands over. A higher epoch is a new incarnation and
//! takes over; a lower one is the old incarnation and is refused.

use std::collections::BTreeMap;

use crate::api::http::error::{ApiError, Code, Fault};
use crate::api::http::json::shortened;
use crate::api::wire::PublicationEnvelope;
use crate::model::is_hidden;

/// So many refused orchestrators are remembered by name.
const REFUSED_MAX: usize = 16;

/// An orchestrator, as it calls itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publisher {
    /// Its name.
    pub name: String,
    /// Its incarnation.
    pub epoch: u64,
}

/// Whose publications count, and who was refused.
#[derive(Clone, Debug, Default)]
pub struct Publishers {
    current: Option<Publisher>,
    /// How many publications of each other one were refused. Without a name: an empty one.
    refused: BTreeMap<String, u64>,
}

/// A publication that may be taken in.
pub(in crate::api) struct Turn {
    /// Whose publications count from now on, where that is new.
    pub publisher: Option<Publisher>,
    /// Whether numbers begin anew with it.
    pub is_new_epoch: bool,
}

impl Publishers {
    /// Whose publications count, if one said its name.
    pub fn current(&self) -> Option<&Publisher> {
        self.current.as_ref()
    }

    /// Who was refused, and how often.
    pub fn refused(&self) -> &BTreeMap<String, u64> {
        &self.refused
    }

    /// From now on the publications of `publisher` count; of any, if there is none.
    pub fn hand_over(&mut self, publisher: Option<Publisher>) {
        self.current = publisher;
        self.refused.clear();
    }

    /// Whether the publication may be taken in.
    ///
    /// # Errors
    ///
    /// If it is of another orchestrator, or of an incarnation that is over; that is counted.
    pub(in crate::api) fn check(
        &mut self,
        envelope: &PublicationEnvelope<'_>,
        longest: usize,
    ) -> Result<Turn, ApiError> {
        let name = envelope.publisher.as_deref();
        if let Some(name) = name {
            check_name(name, "/publisher", longest)?;
        }
        let (name, epoch) = match (name, envelope.epoch) {
            (Some(name), epoch) => (name, epoch.unwrap_or(0)),
            (None, Some(_)) => {
                let detail = "an epoch needs a `publisher`, whose it is";
                return Err(Fault::new(Code::MissingField, "/publisher", detail).into());
            }
            (None, None) => return self.nameless(),
        };
        let this = Publisher { name: name.to_owned(), epoch };
        match &self.current {
            Some(current) if current.name != name => {
                let detail = format!(
                    "publications of `{}` count, and this one is of `{}`; nothing was changed. An operator changes that with `apportion orchestrator hand-over --to NAME`",
                    shortened(&current.name),
                    shortened(name)
                );
                Err(self.refuse(name, detail))
            }
            Some(current) if epoch < current.epoch => {
                let detail = format!(
                    "epoch {epoch} of `{}` is over: epoch {} took over; nothing was changed",
                    shortened(name),
                    current.epoch
                );
                Err(self.refuse(name, detail))
            }
            Some(current) if epoch == current.epoch => {
                Ok(Turn { publisher: None, is_new_epoch: false })
            }
            Some(_) => Ok(Turn { publisher: Some(this), is_new_epoch: true }),
            None => Ok(Turn { publisher: Some(this), is_new_epoch: false }),
        }
    }

    fn nameless(&mut self) -> Result<Turn, ApiError> {
        let Some(current) = &self.current else {
            return Ok(Turn { publisher: None, is_new_epoch: false });
        };
        let detail = format!(
            "publications of `{}` count, and this one does not say whose it is; nothing was changed. Send `publisher`, or have an operator hand over: `apportion orchestrator hand-over`",
            shortened(&current.name)
        );
        Err(self.refuse("", detail))
    }

    fn refuse(&mut self, name: &str, detail: String) -> ApiError {
        if self.refused.contains_key(name) || self.refused.len() < REFUSED_MAX {
            *self.refused.entry(name.to_owned()).or_default() += 1;
        }
        tracing::warn!(publisher = name, "a publication of another orchestrator is refused");
        Fault::new(Code::OtherPublisher, "/publisher", detail).into()
    }
}

/// Whether an orchestrator may have that name, which stands at `pointer`.
///
/// # Errors
///
/// If it is empty, too long, or no line of text.
pub(in crate::api) fn check_name(name: &str, pointer: &str, longest: usize) -> Result<(), Fault> {
    if !name.is_empty() && name.len() <= longest && !name.contains(is_hidden) {
        return Ok(());
    }
    let name = shortened(name);
    let detail = format!("`{name}` is no name: write 1 to {longest} bytes in one line");
    Err(Fault::new(Code::BadValue, pointer, detail))
}
