//! A connection that ends if the client takes too long to finish a request head, or to read an
//! answer.
//!
//! hyper has a single timeout for idling and for heads. Agents idle for half a minute between
//! heartbeats, and no client needs that long for a head.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Timeouts for a slow client.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerTimeouts {
    /// Time for a request head, from its first byte on.
    pub(super) head: Duration,
    /// Wait until the client reads a part of an answer.
    pub(super) write: Duration,
}

/// Count of begun and ended requests: odd while a request is answered. Counted by the service.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestInFlight(Arc<AtomicU64>);

impl RequestInFlight {
    pub(super) fn begin_or_end(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(super) struct TimedStream<T> {
    stream: T,
    busy: RequestInFlight,
    patience: PeerTimeouts,
    /// Count of requests at which a head began, and the deadline of the head.
    head: Option<(u64, Pin<Box<Sleep>>)>,
    /// Deadline of the current write.
    write: Option<Pin<Box<Sleep>>>,
}

impl<T> TimedStream<T> {
    pub(super) fn new(stream: T, busy: RequestInFlight, patience: PeerTimeouts) -> TimedStream<T> {
        TimedStream { stream, busy, patience, head: None, write: None }
    }

    /// Returns the result of a write, or an error once the client has read nothing for too long.
    fn in_time<R>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.write = None;
            return written;
        }
        let patience = self.patience.write;
        let write = self.write.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(write.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TimedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = self.busy.get();
        match &mut self.head {
            Some((began, end)) if *began == count => {
                if end.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
            // The head is complete, and its request perhaps answered already.
            _ => self.head = None,
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let is_idle = count.is_multiple_of(2) && self.head.is_none();
        if before < buffer.filled().len() && is_idle {
            self.head = Some((count, Box::pin(sleep(self.patience.head))));
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TimedStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.in_time(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.in_time(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.in_time(cx, shut)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.in_time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const PATIENCE: PeerTimeouts =
        PeerTimeouts { head: Duration::from_millis(50), write: Duration::from_millis(50) };

    #[tokio::test]
    async fn a_head_that_has_begun_has_to_end_and_idling_may_go_on() {
        let (mut client, server) = duplex(64);
        let busy = RequestInFlight::default();
        let mut server = TimedStream::new(server, busy.clone(), PATIENCE);
        let mut byte = [0];

        let wait = tokio::time::timeout(4 * PATIENCE.head, server.read(&mut byte));
        assert!(wait.await.is_err(), "no head has begun");

        client.write_all(b"G").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        busy.begin_or_end();
        sleep(2 * PATIENCE.head).await;
        client.write_all(b"x").await.unwrap();
        server.read_exact(&mut byte).await.expect("a body has its own limits");
        busy.begin_or_end();

        client.write_all(b"G").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        busy.begin_or_end();
        busy.begin_or_end();
        let wait = tokio::time::timeout(4 * PATIENCE.head, server.read(&mut byte));
        assert!(wait.await.is_err(), "the request was answered before the next read");

        client.write_all(b"G").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        let refused = server.read(&mut byte).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_disconnected() {
        let (_client, server) = duplex(4);
        let mut server = TimedStream::new(server, RequestInFlight::default(), PATIENCE);
        let refused = server.write_all(b"more than four bytes").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    }
}
