//! What happens when a test moves tokio's time.

use std::time::Duration;

use semaphore_core::adapter::Runtime as _;
use transport_reqwest::ReqwestTransport;

#[tokio::test(start_paused = true)]
async fn the_clock_leaps_as_far_as_its_sleeps() {
    let transport = ReqwestTransport::new("http://127.0.0.1:8500").unwrap();
    transport.sleep(Duration::from_secs(3600)).await;
    assert!(transport.now().since_origin() >= Duration::from_secs(3600));
}

#[test]
fn the_clock_follows_on_a_thread_that_is_none_of_tokios() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let transport = runtime.block_on(async {
        let transport = ReqwestTransport::new("http://127.0.0.1:8500").unwrap();
        tokio::time::advance(Duration::from_secs(60)).await;
        transport
    });
    assert!(transport.now().since_origin() >= Duration::from_secs(60));
}
