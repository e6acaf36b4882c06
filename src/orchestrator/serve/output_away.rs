//! Output of tasks that ran on other clusters: read there by the public route, and passed on.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::output::OutputQuery;
use super::problem::Failed;
use super::state::ServeState;
use crate::orchestrator::book::AttemptRow;
use crate::orchestrator::clusters::RemoteError;
use crate::orchestrator::wire::Channel;

/// The output of a forwarded attempt. The cluster has its own number of the attempt, and its last attempt counts.
pub(super) async fn fetch(
    state: &ServeState,
    row: &AttemptRow,
    query: &OutputQuery,
) -> Result<Response, Failed> {
    let (cluster, task) = (&row.node, row.id.task);
    let child = state.reader().await?.get()?.child(row.share).await?;
    let Some(child) = child else {
        let detail = format!(
            "task {}.{task} is on its way to cluster {cluster}, or went before its number there was kept; ask again later",
            row.id.campaign
        );
        return Err(Failed::absent(detail));
    };
    let Some(remote) = state.sight.remote(cluster) else {
        let detail = format!(
            "the output is on cluster {cluster}, which is not configured any more; there, `apportion task logs \
             {child}.{task}` shows it"
        );
        return Err(Failed::absent(detail));
    };
    let channel = match query.channel.unwrap_or(Channel::Out) {
        Channel::Out => "out",
        Channel::Err => "err",
    };
    let (from, follow) = (query.from.unwrap_or(0).to_string(), query.follow.unwrap_or(false));
    let follow = follow.to_string();
    let selection = [("channel", channel), ("from", from.as_str()), ("follow", follow.as_str())];
    let answer = remote.output(child, task, &selection).await.map_err(|error| {
        let url = &remote.settings().url;
        let detail = format!(
            "the output is on cluster {cluster}: {error}; `apportion task logs {child}.{task} --orchestrator {url}` \
             asks it itself"
        );
        if matches!(error, RemoteError::Refused(_)) {
            Failed::absent(detail)
        } else {
            Failed::silent_cluster(detail)
        }
    })?;
    let parts = stream::unfold(Some(answer), async |answer| {
        let mut answer = answer?;
        match answer.chunk().await {
            Ok(part) => part.map(|part| (Ok(part), Some(answer))),
            Err(error) => Some((Err(error), None)),
        }
    });
    let kind = HeaderValue::from_static("application/octet-stream");
    Ok(([(header::CONTENT_TYPE, kind)], Body::from_stream(parts)).into_response())
}
