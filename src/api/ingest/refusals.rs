//! Answers to jobs that the scheduler refuses.

use crate::api::http::error::{Code, RequestFault};
use crate::converter::PublishedJob;
use crate::scheduler::Refusal;

/// The fault of a published job that is refused.
pub(super) fn refused(work: &PublishedJob, refusal: &Refusal) -> RequestFault {
    let (code, field) = match refusal {
        Refusal::UnknownClass { .. } => (Code::UnknownClass, "/class"),
        Refusal::UserNotAllowed { .. } => (Code::UserNotAllowed, "/user"),
        Refusal::PreemptableClass { .. } => (Code::PreemptableClass, "/class"),
        Refusal::GangNotAllowed { .. } => (Code::GangNotAllowed, "/class"),
        Refusal::TooLong { .. } => (Code::TooLong, "/duration_ms"),
        Refusal::MemoryOutOfRange { .. } => (Code::MemoryOutOfRange, "/memory_mb"),
        Refusal::OnlyUrgent { .. } => (Code::OnlyUrgent, "/class"),
    };
    let refusal = refusal.to_string();
    let stop = if refusal.ends_with('?') { "" } else { "." };
    let detail = format!(
        "job {}: {refusal}{stop} It is shown as refused and gets nothing until this is put right",
        work.spec.id
    );
    RequestFault::new(code, field, detail)
}
