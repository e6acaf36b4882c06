//! Progress of a long computation, for a reader on another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count of steps. Copies count together; a count that does not grow means that the work hangs.
#[derive(Clone, Debug, Default)]
pub struct Steps(Arc<AtomicU64>);

impl Steps {
    /// Counts a step as done.
    pub fn take(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of steps done.
    pub fn taken(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_count_together() {
        let steps = Steps::default();
        let copy = steps.clone();
        copy.take();
        steps.take();
        assert_eq!((steps.taken(), copy.taken()), (2, 2));
    }
}
