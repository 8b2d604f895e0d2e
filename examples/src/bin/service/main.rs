//! A service that renders reports, at most two at once in the whole fleet, and its tests: see
//! `tests.rs` beside this file. The third request waits for two seconds and is answered 503.
//!
//! `cargo run --bin service`, on a Consul in memory or on the agent at `CONSUL_HTTP_ADDR`; `cargo test --bin service`.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::time::Duration;

use examples::agent::Agent;
use http::{Response, StatusCode};
use transport_reqwest::Semaphore;

/// How long a request waits for a slot.
const PATIENCE: Duration = Duration::from_secs(2);

/// The duration of one report.
const WORK: Duration = Duration::from_secs(30);

/// What all requests share.
#[derive(Clone, Debug)]
struct Reports {
    semaphore: Semaphore,
}

impl Reports {
    /// Answers one request. Nothing in it knows about tests.
    async fn render(&self) -> Response<String> {
        let permit = match self.semaphore.acquire_timeout(PATIENCE).await {
            Ok(permit) => permit,
            Err(error) => return answer(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        };
        let report = tokio::select! {
            biased;
            lost = permit.lost() => {
                return answer(StatusCode::SERVICE_UNAVAILABLE, lost.to_string());
            }
            report = work() => report,
        };
        // The report is ready, even if the slot can't be given back: its session ends anyway.
        let _ = permit.release().await;
        answer(StatusCode::OK, report)
    }
}

async fn work() -> String {
    tokio::time::sleep(WORK).await;
    "the report".to_owned()
}

fn answer(status: StatusCode, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// Three simultaneous requests, as a server would pass them on.
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let agent = Agent::find()?;
    let builder = Semaphore::builder("examples/service", 2).value("service");
    let reports = Reports {
        semaphore: builder.connect(agent.reqwest()?)?,
    };
    let requests = [(); 3].map(|()| {
        let reports = reports.clone();
        tokio::spawn(async move { reports.render().await })
    });
    for request in requests {
        let response = request.await?;
        println!("{} {}", response.status(), response.body());
    }
    reports.semaphore.shutdown().await;
    Ok(())
}
