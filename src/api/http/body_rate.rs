//! Drops bodies that arrive too slowly. A client that sends a byte now and then would occupy memory
//! for as long as it likes.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// Over which time the pace is measured.
const WINDOW: Duration = Duration::from_secs(5);
/// Bytes that must arrive in that time: 1 KB a second.
const LEAST: usize = 5 << 10;

/// A body came too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyTooSlow;

impl fmt::Display for BodyTooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, window) = (LEAST, WINDOW.as_secs());
        write!(f, "the body came with less than {least} bytes in {window} s; nothing was changed")
    }
}

impl std::error::Error for BodyTooSlow {}

/// Limits the body of `request` to a minimum pace; a slower body fails.
pub fn enforce_min_rate(request: Request) -> Request {
    request.map(|body| {
        if body.is_end_stream() { body } else { Body::new(MinRateBody::new(body, WINDOW, LEAST)) }
    })
}

/// A body that fails if fewer than `least` bytes arrive in a `window`.
#[derive(Debug)]
struct MinRateBody {
    body: Body,
    window: Duration,
    least: usize,
    /// End of the window; set once a reader waits for the body.
    end: Option<Pin<Box<Sleep>>>,
    came: usize,
}

impl MinRateBody {
    fn new(body: Body, window: Duration, least: usize) -> MinRateBody {
        MinRateBody { body, window, least, end: None, came: 0 }
    }
}

impl HttpBody for MinRateBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            if let Some(Ok(frame)) = &frame {
                self.came += frame.data_ref().map_or(0, Bytes::len);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        loop {
            let window = self.window;
            let end = self.end.get_or_insert_with(|| Box::pin(sleep(window)));
            ready!(end.as_mut().poll(cx));
            if self.came < self.least {
                return Poll::Ready(Some(Err(BodyTooSlow.into())));
            }
            self.came = 0;
            self.end = None;
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures_util::stream;

    use super::*;

    /// True if a body of ten parts of `bytes` bytes arrives. The parts come 20 ms apart, and 10
    /// bytes have to come in 50 ms.
    async fn arrives(bytes: usize) -> bool {
        let part = move |count: u8| async move {
            sleep(Duration::from_millis(20)).await;
            (count < 10).then(|| (Ok::<_, BodyTooSlow>(Bytes::from(vec![b'x'; bytes])), count + 1))
        };
        let body = Body::from_stream(stream::unfold(0, part));
        let paced = MinRateBody::new(body, Duration::from_millis(50), 10);
        to_bytes(Body::new(paced), usize::MAX).await.is_ok()
    }

    #[tokio::test]
    async fn what_trickles_is_given_up_and_what_flows_is_not() {
        assert!(!arrives(1).await);
        assert!(arrives(100).await);
    }
}
