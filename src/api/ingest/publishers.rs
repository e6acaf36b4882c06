//! The accepted orchestrator: two orchestrators that do not know of each other must not end each
//! other's jobs.
//!
//! A publication may name its orchestrator and its epoch. After the first named publication, only
//! that orchestrator is accepted, until an operator hands over. A higher epoch is a new incarnation
//! and takes over; a lower epoch is the old incarnation and is refused.

use std::collections::BTreeMap;

use crate::api::http::error::{ApiError, Code, RequestFault};
use crate::api::http::json::shortened;
use crate::api::wire::PublicationEnvelope;
use crate::model::is_hidden;

/// Number of refused orchestrators that are remembered by name.
const REFUSED_MAX: usize = 16;

/// An orchestrator, as it calls itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publisher {
    /// Name of the orchestrator.
    pub name: String,
    /// Incarnation of the orchestrator.
    pub epoch: u64,
}

/// The accepted orchestrator, and the refused ones.
#[derive(Clone, Debug, Default)]
pub struct Publishers {
    current: Option<Publisher>,
    /// Number of refused publications by name of the orchestrator; without a name, under an empty
    /// name.
    refused: BTreeMap<String, u64>,
}

/// A publication that may be taken in.
pub(in crate::api) struct PublisherChange {
    /// Orchestrator that is accepted from now on, if the publication changes that.
    pub publisher: Option<Publisher>,
    /// True if the sequence begins anew with the publication.
    pub is_new_epoch: bool,
}

impl Publishers {
    /// Returns the accepted orchestrator, if a publication named it.
    pub fn current(&self) -> Option<&Publisher> {
        self.current.as_ref()
    }

    /// Returns the numbers of refused publications, by name.
    pub fn refused(&self) -> &BTreeMap<String, u64> {
        &self.refused
    }

    /// From now on the publications of `publisher` count; of any, if there is none.
    pub fn hand_over(&mut self, publisher: Option<Publisher>) {
        self.current = publisher;
        self.refused.clear();
    }

    /// Checks that the publication may be taken in.
    ///
    /// # Errors
    ///
    /// If it is of another orchestrator, or of an incarnation that is over; that is counted.
    pub(in crate::api) fn check(
        &mut self,
        envelope: &PublicationEnvelope<'_>,
        longest: usize,
    ) -> Result<PublisherChange, ApiError> {
        let name = envelope.publisher.as_deref();
        if let Some(name) = name {
            check_name(name, "/publisher", longest)?;
        }
        let (name, epoch) = match (name, envelope.epoch) {
            (Some(name), epoch) => (name, epoch.unwrap_or(0)),
            (None, Some(_)) => {
                let detail = "an epoch needs a `publisher`; add its name";
                return Err(RequestFault::new(Code::MissingField, "/publisher", detail).into());
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
                Ok(PublisherChange { publisher: None, is_new_epoch: false })
            }
            Some(_) => Ok(PublisherChange { publisher: Some(this), is_new_epoch: true }),
            None => Ok(PublisherChange { publisher: Some(this), is_new_epoch: false }),
        }
    }

    fn nameless(&mut self) -> Result<PublisherChange, ApiError> {
        let Some(current) = &self.current else {
            return Ok(PublisherChange { publisher: None, is_new_epoch: false });
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
        RequestFault::new(Code::OtherPublisher, "/publisher", detail).into()
    }
}

/// Checks the name of an orchestrator, which stands at `pointer`.
///
/// # Errors
///
/// If it is empty, too long, or no line of text.
pub(in crate::api) fn check_name(
    name: &str,
    pointer: &str,
    longest: usize,
) -> Result<(), RequestFault> {
    if !name.is_empty() && name.len() <= longest && !name.contains(is_hidden) {
        return Ok(());
    }
    let name = shortened(name);
    let detail = format!("`{name}` is no name: write 1 to {longest} bytes in one line");
    Err(RequestFault::new(Code::BadValue, pointer, detail))
}
