use std::sync::mpsc;
use std::time::Duration;

use semaphore_core::adapter::Runtime;

use crate::{Backend, run};

pub fn time_goes_on_while_sleeping(backend: &impl Backend) {
    let adapter = backend.to("http://127.0.0.1:8500");
    let nap = Duration::from_millis(20);
    let before = adapter.now();
    run(&adapter, adapter.sleep(nap));
    assert!(adapter.now() >= before + nap);
    assert!(
        adapter.clone().now() >= before + nap,
        "clones share a clock"
    );
}

pub fn a_spawned_task_runs_while_nobody_waits_for_it(backend: &impl Backend) {
    let adapter = backend.to("http://127.0.0.1:8500");
    let (done, dones) = mpsc::channel();
    let sleeper = adapter.clone();
    adapter
        .spawn(Box::pin(async move {
            sleeper.sleep(Duration::from_millis(1)).await;
            done.send(()).unwrap();
        }))
        .unwrap();
    dones.recv().unwrap();
}

pub fn block_on_returns_when_the_future_ends(backend: &impl Backend) {
    let adapter = backend.to("http://127.0.0.1:8500");
    let (sender, receiver) = futures_util::future::abortable(std::future::pending::<()>());
    let waker = adapter.clone();
    let ended = run(&adapter, async {
        waker
            .spawn(Box::pin(async move { receiver.abort() }))
            .unwrap();
        sender.await
    });
    assert!(ended.is_err(), "ended by the abort");
}
