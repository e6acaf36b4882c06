//! Limits the number of costly requests that are answered at a time. Operators wait for operators
//! only.

use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;

/// The turns of costly requests.
#[derive(Debug)]
pub(in crate::api) struct Turns {
    pub of_operators: Arc<Semaphore>,
    pub of_others: Arc<Semaphore>,
}

impl Default for Turns {
    /// A turn for each two processors, and a further turn for operators.
    fn default() -> Turns {
        let processors = available_parallelism().map_or(1, usize::from);
        Turns {
            of_operators: Arc::new(Semaphore::new(1)),
            of_others: Arc::new(Semaphore::new(processors.div_ceil(2))),
        }
    }
}
