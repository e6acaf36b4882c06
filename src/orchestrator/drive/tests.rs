//! Nothing is told before it is on record.

use super::*;
use crate::orchestrator::wire::{Rung, VERSION};

type Answer = oneshot::Receiver<Result<ExchangeAnswer, Refusal>>;

fn exchange(number: u64) -> (Request, Answer) {
    let report = Exchange {
        v: VERSION,
        boot: "b1".into(),
        life: "l1".into(),
        number,
        limits: Rung::Watched,
        only_user: None,
        epoch: 0,
        slots: Vec::new(),
    };
    let (reply, answer) = oneshot::channel();
    let wait = Duration::from_secs(25);
    (Request::Exchange("n1".into(), Box::new(report), wait, reply), answer)
}

#[tokio::test]
async fn a_second_exchange_ends_the_first_after_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("orchestrator.db")).await.unwrap();
    let (_requests, inbox) = mpsc::channel(8);
    let signals = Arc::new(Signals { publish: Notify::new() });
    let owner = Owner::resume(store, Settings::default(), inbox, signals);
    let mut owner = owner.await.unwrap();
    let (first, mut answer) = exchange(1);
    owner.take(first).await.unwrap();
    owner.finish_batch().await.unwrap();
    let (second, _later) = exchange(2);
    owner.take(second).await.unwrap();
    assert!(answer.try_recv().is_err(), "it was answered before the commit");
    owner.finish_batch().await.unwrap();
    assert!(answer.try_recv().unwrap().is_ok());
}
