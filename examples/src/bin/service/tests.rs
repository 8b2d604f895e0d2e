//! The service on a Consul in memory with tokio's time. Half a minute of work takes no time, and
//! failures happen when the test says.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tower::{Service, ServiceExt as _, service_fn};
use transport_mock::{MockConsul, Seeds};
use transport_reqwest::Semaphore;

use super::{PATIENCE, Reports, WORK};

const PREFIX: &str = "service/reports";

/// The service on this host: the same handle as in production, with the host in place of an agent.
fn reports(world: &MockConsul, host: &str) -> Reports {
    let builder = Semaphore::builder(PREFIX, 2).value(host);
    let semaphore = builder.connect(world.client(host)).unwrap();
    Reports { semaphore }
}

/// The service as its framework calls it.
fn served(
    reports: &Reports,
) -> impl Service<Request<()>, Response = Response<String>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ use<> {
    let reports = reports.clone();
    service_fn(move |_: Request<()>| {
        let reports = reports.clone();
        async move { Ok(reports.render().await) }
    })
}

async fn get(reports: &Reports) -> Response<String> {
    let Ok(response) = served(reports).oneshot(Request::new(())).await;
    response
}

/// A request under way.
async fn begin(reports: &Reports) -> JoinHandle<Response<String>> {
    let request = tokio::spawn(served(reports).oneshot(Request::new(())));
    sleep(Duration::from_secs(1)).await;
    tokio::spawn(async move {
        let Ok(response) = request.await.unwrap();
        response
    })
}

#[tokio::test(start_paused = true)]
async fn two_at_once_are_served_and_the_third_gets_503() {
    let world = MockConsul::on_tokio(7);
    let (a, b) = (reports(&world, "a"), reports(&world, "b"));
    let (first, second) = (begin(&a).await, begin(&b).await);
    assert_eq!(world.holders(PREFIX).len(), 2);

    let began = Instant::now();
    assert_eq!(get(&a).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(began.elapsed(), PATIENCE);

    assert_eq!(first.await.unwrap().body(), "the report");
    assert_eq!(second.await.unwrap().body(), "the report");
    assert_eq!(get(&a).await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_loses_its_slot_in_the_middle_gets_503() {
    let world = MockConsul::on_tokio(7);
    let reports = reports(&world, "a");
    let request = begin(&reports).await;
    world.expire_session("a");
    let response = request.await.unwrap();
    assert_eq!(
        response.status(),
        StatusCode::SERVICE_UNAVAILABLE,
        "{response:?}"
    );
    assert!(world.now().since_origin() < WORK);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_cut_off_stops_by_itself() {
    let world = MockConsul::on_tokio(7);
    let reports = reports(&world, "a");
    let request = begin(&reports).await;
    world.partition("a");
    let response = request.await.unwrap();
    assert_eq!(
        response.status(),
        StatusCode::SERVICE_UNAVAILABLE,
        "{response:?}"
    );
    assert!(world.now().since_origin() < WORK);
}

#[tokio::test(start_paused = true)]
async fn the_slot_of_a_host_that_is_killed_is_free_again_within_a_minute() {
    let world = MockConsul::on_tokio(7);
    let [a, b, c] = ["a", "b", "c"].map(|host| reports(&world, host));
    let lost = begin(&a).await;
    world.kill("a");
    assert_eq!(
        lost.await.unwrap().status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    let second = begin(&b).await;
    assert_eq!(get(&c).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(second.await.unwrap().status(), StatusCode::OK);

    // PROMISES: 40 to 46 s after a crash.
    sleep(Duration::from_secs(46)).await;
    let both = [begin(&b).await, begin(&c).await];
    for request in both {
        assert_eq!(request.await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_away_at_the_start_is_waited_for_and_no_longer_than_a_request_may() {
    let world = MockConsul::on_tokio(7);
    world.partition("a");
    let reports = reports(&world, "a");
    let began = Instant::now();
    assert_eq!(
        get(&reports).await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    assert_eq!(began.elapsed(), PATIENCE);

    world.heal("a");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(get(&reports).await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_slow_agent_costs_time_and_no_answer() {
    let world = MockConsul::on_tokio(7);
    let slow: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_millis(150);
    world.set_latency(slow);
    assert_eq!(get(&reports(&world, "a")).await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_leaves_nothing_in_consul() {
    let world = MockConsul::on_tokio(7);
    let reports = reports(&world, "a");
    let request = begin(&reports).await;
    // As a framework does when it is told to end: it drops what is under way.
    request.abort();
    drop(request);
    assert_eq!(get(&reports).await.status(), StatusCode::OK);
    reports.semaphore.shutdown().await;
    world.assert_nothing_left(PREFIX);
}

/// In ten worlds with random faults: never more than two at once, an answer to each, and nothing
/// left at the end.
#[tokio::test(start_paused = true)]
async fn never_more_than_two_at_once_whatever_goes_wrong() {
    let test = async |world: MockConsul| {
        let hosts = ["a", "b", "c"].map(|host| reports(&world, host));
        let mut requests = Vec::new();
        for _ in 0..2 {
            for host in &hosts {
                requests.push(begin(host).await);
                assert!(world.holders(PREFIX).len() <= 2);
            }
        }
        for request in requests {
            let status = request.await.unwrap().status();
            assert!([StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE].contains(&status));
            assert!(world.holders(PREFIX).len() <= 2);
        }
        world.clear_faults();
        assert_eq!(get(&hosts[0]).await.status(), StatusCode::OK);
        for host in hosts {
            host.semaphore.shutdown().await;
        }
        world.assert_nothing_left(PREFIX);
    };
    Seeds::new(10).with_faults(0.05).run_on_tokio(test).await;
}
