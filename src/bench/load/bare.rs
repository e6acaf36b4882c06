//! Baseline of the daemon: handlers that read the same bodies and do nothing with them.
//!
//! A process of its own, as the daemon is, on the same libraries.

use std::io;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use tokio::net::TcpListener;

use crate::api::wire::{Heartbeat, HeartbeatAnswer, HeartbeatBatch};

/// Path of the handler that reads a single heartbeat.
pub(super) const SINGLE: &str = "/single";
/// Takes in many.
pub(super) const BATCH: &str = "/batch";
/// Says that nothing has changed.
pub(super) const UNCHANGED: &str = "/unchanged";
/// Path that returns the text put there.
pub(super) const TEXT: &str = "/text";

/// Serves on any port of loopback, which `listening` gets, until the process ends.
///
/// # Errors
///
/// If it cannot listen.
pub async fn serve(listening: impl FnOnce(std::net::SocketAddr)) -> io::Result<()> {
    let text = std::sync::Arc::new(arc_swap::ArcSwap::from_pointee(Bytes::new()));
    let router = Router::new()
        .route(SINGLE, post(|Json(_): Json<Heartbeat>| async { taken(1) }))
        .route(
            BATCH,
            post(|Json(batch): Json<HeartbeatBatch>| async move { taken(batch.nodes.len()) }),
        )
        .route(UNCHANGED, get(|| async { (StatusCode::NOT_MODIFIED, [(header::ETAG, "W/\"1\"")]) }))
        .route(
            TEXT,
            get(|State(text): State<Text>| async move { Bytes::clone(&text.load()) }).put(
                |State(text): State<Text>, body: Bytes| async move { text.store(body.into()) },
            ),
        )
        .layer(axum::extract::DefaultBodyLimit::disable())
        .with_state(text);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    listening(listener.local_addr()?);
    axum::serve(listener, router).await
}

type Text = std::sync::Arc<arc_swap::ArcSwap<Bytes>>;

fn taken(count: usize) -> impl IntoResponse {
    let accepted = u64::try_from(count).unwrap_or(u64::MAX);
    (
        StatusCode::ACCEPTED,
        Json(HeartbeatAnswer { accepted, refused: Vec::new(), refused_unlisted: 0 }),
    )
}
