//! Intake of urgent requests, in turn with publications.

use crate::api::http::error::RequestFault;
use crate::api::ingest::publication_reader::PublicationReader;
use crate::api::ingest::urgent_grace::read_urgent;
use crate::api::published::Published;
use crate::converter::PublishedJob;
use crate::model::JobId;

impl PublicationReader {
    /// Reads an urgent request.
    ///
    /// # Errors
    ///
    /// If it is no item of a publication, or has processes.
    pub(in crate::api) fn read_urgent(
        &self,
        text: &str,
        published: &Published,
    ) -> Result<PublishedJob, RequestFault> {
        let before = self.current.as_ref().or(published.taken_over.as_deref());
        let known = |id: JobId| before.and_then(|before| before.work.get(&id));
        read_urgent(text, known, &published.view, &self.limits)
    }

    /// Enters an urgent job that was accepted: publications without it do not end it at once.
    pub(in crate::api) fn keep_urgent(&mut self, work: PublishedJob) {
        self.grace.enter(&work);
        if let Some(current) = &mut self.current {
            current.work.insert(work.spec.id, work);
        }
    }
}
