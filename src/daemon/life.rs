//! Shows that the scheduler gets on: to systemd, and to the checks of readiness.
//!
//! A separate thread checks that the scheduler counts steps: within a plan, within a statement of
//! the store, and while nothing is due. A plan of some seconds still counts steps. A scheduler that
//! hangs counts none, even if other parts of the daemon work.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::notify;
use crate::api::ViewPublisher;
use crate::model::Steps;

/// Phase of the daemon's run.
#[derive(Debug)]
enum DaemonPhase {
    /// The daemon opens the store: a start may take long while it makes progress.
    Starts,
    /// The daemon answers requests.
    Runs(Arc<ViewPublisher>),
    /// The daemon ends, which may take long too.
    Ends(Arc<ViewPublisher>),
}

/// The thread that shows signs of life, as long as this is kept.
#[derive(Debug)]
pub struct LifeSigns(Sender<DaemonPhase>);

impl LifeSigns {
    /// Shows signs of a daemon that starts, whenever `steps` were taken.
    ///
    /// # Errors
    ///
    /// If there can be no thread more.
    pub fn begin(steps: Steps) -> io::Result<LifeSigns> {
        let (tell, told) = channel();
        thread::Builder::new().name("life".to_owned()).spawn(move || {
            watch(&steps, &told, notify::sign_period() / 2, show);
        })?;
        Ok(LifeSigns(tell))
    }

    /// Reports that the daemon has started; from now on `board` shows that it is alive.
    pub fn runs(&self, board: &Arc<ViewPublisher>) {
        notify::started();
        // A failed send means that the thread has ended; then no receiver is left.
        let _ = self.0.send(DaemonPhase::Runs(Arc::clone(board)));
    }

    /// Reports that the daemon ends.
    pub fn ends(&self, board: &Arc<ViewPublisher>) {
        notify::stopping();
        let _ = self.0.send(DaemonPhase::Ends(Arc::clone(board)));
    }
}

/// Checks at intervals of `every`, and calls `show` if steps were counted since the last check.
/// Ends when the sender of phases is dropped.
fn watch(
    steps: &Steps,
    told: &Receiver<DaemonPhase>,
    every: Duration,
    mut show: impl FnMut(&DaemonPhase),
) {
    let mut phase = DaemonPhase::Starts;
    let mut seen = steps.taken();
    loop {
        match told.recv_timeout(every) {
            Ok(next) => phase = next,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let taken = steps.taken();
        if taken != seen {
            show(&phase);
        }
        seen = taken;
    }
}

fn show(phase: &DaemonPhase) {
    match phase {
        DaemonPhase::Starts => notify::give_time(),
        DaemonPhase::Runs(board) => {
            board.mark_alive();
            notify::alive();
        }
        DaemonPhase::Ends(board) => {
            board.mark_alive();
            notify::alive();
            notify::give_time();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread reports the scheduler's progress, not its own.
    #[test]
    fn a_sign_is_shown_where_steps_were_taken_and_only_there() {
        let (steps, shown) = (Steps::default(), Steps::default());
        let (tell, told) = channel();
        let (taken, signs) = (steps.clone(), shown.clone());
        let every = Duration::from_millis(1);
        let thread = thread::spawn(move || watch(&taken, &told, every, |_| signs.take()));
        thread::sleep(Duration::from_millis(50));
        assert_eq!(shown.taken(), 0);
        for sign in 1..=3 {
            steps.take();
            while shown.taken() < sign {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(20));
            assert_eq!(shown.taken(), sign, "one step is no more signs");
        }
        drop(tell);
        thread.join().unwrap();
    }
}
