//! An observer for the `metrics` facade.

use metrics::{Label, counter, gauge, histogram};

use super::exchange::Exchange;
use super::observer::Observer;
use crate::error::{Error, Refusal};
use crate::machine::{NAMES_OF_LOSSES, Notice, name_of_loss};
use crate::subject::Subject;

/// Counts what happens, and passes the figures to the program's recorder for the
/// [`metrics`](https://docs.rs/metrics) facade, for example to Prometheus. Give it to
/// [`Builder::observer`](crate::Builder::observer). It needs the feature `metrics`.
///
/// | name | kind | labels | says |
/// |---|---|---|---|
/// | `semaphore_acquisitions_total` | counter | `outcome` | acquisitions that ended: `granted`; `not_available` to a try; `timed_out`; `refused` by Consul; in `conflict` with what is there; `failed` in another way, for example when the handle was closed; `given_up` by their caller |
/// | `semaphore_wait_seconds` | histogram | `outcome` | how long they waited, unless they were `not_available` |
/// | `semaphore_hold_seconds` | histogram | | how long slots were held, until the release or the loss |
/// | `semaphore_held` | gauge | | the permits that are held |
/// | `semaphore_waiting` | gauge | | the acquisitions that wait |
/// | `semaphore_not_available_total` | counter | | tries that found nothing free |
/// | `semaphore_lost_total` | counter | `reason` | slots that were lost |
/// | `semaphore_lease_left_seconds` | histogram | | how much was left of a lease when it was renewed: near zero it is close to a loss |
/// | `semaphore_outages_total` | counter | | outages that lasted for more than a second |
/// | `semaphore_outage_seconds` | histogram | | how long those lasted that are over |
/// | `semaphore_pruned_total` | counter | | dead holders that were taken out |
/// | `semaphore_requests_total` | counter | `kind`, `status` | requests; `status` is `none` where no answer came |
/// | `semaphore_request_seconds` | histogram | `kind` | how long they took; of a `kv_watch` the server decides it |
///
/// Elections have the same figures: a leadership is a hold of one permit. All counters but those of
/// requests exist from zero, from the connection on. With
/// [`Self::with_names`], all figures except the two about requests have the label `name`: the
/// prefix, or the key. The outages of a [`Client`](crate::Client) are its own, and have no name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    is_named: bool,
}

impl Metrics {
    /// Without the label `name`: the figures of all semaphores are added up.
    pub fn new() -> Self {
        Self::default()
    }

    /// With the label `name`. Don't use it with thousands of names.
    #[must_use]
    pub fn with_names(self) -> Self {
        Self { is_named: true }
    }

    fn labels(self, of: &Subject) -> Vec<Label> {
        let name = self
            .is_named
            .then_some(of.name())
            .filter(|name| !name.is_empty());
        let name = name.map(|name| Label::new("name", name.to_owned()));
        name.into_iter().collect()
    }

    fn labels_and(self, of: &Subject, name: &'static str, value: &'static str) -> Vec<Label> {
        let mut labels = self.labels(of);
        labels.push(Label::new(name, value));
        labels
    }

    /// An acquisition has ended so.
    fn ended_as(self, of: &Subject, outcome: &'static str) {
        let labels = self.labels_and(of, "outcome", outcome);
        counter!("semaphore_acquisitions_total", labels).increment(1);
    }

    fn waited(self, of: &Subject, outcome: &'static str, waited: core::time::Duration) {
        self.ended_as(of, outcome);
        gauge!("semaphore_waiting", self.labels(of)).decrement(1.0);
        let labels = self.labels_and(of, "outcome", outcome);
        histogram!("semaphore_wait_seconds", labels).record(waited);
    }

    fn ended(self, of: &Subject, permits: u32, held: core::time::Duration) {
        gauge!("semaphore_held", self.labels(of)).decrement(f64::from(permits));
        histogram!("semaphore_hold_seconds", self.labels(of)).record(held);
    }
}

/// How acquisitions end.
const OUTCOMES: [&str; 7] = [
    "granted",
    "not_available",
    "timed_out",
    "refused",
    "conflict",
    "failed",
    "given_up",
];

/// Why an acquisition failed, as one word.
fn outcome_of(error: &Error) -> &'static str {
    match error {
        Error::Timeout { .. } => "timed_out",
        Error::Conflict { .. } | Error::LimitConflict { .. } | Error::NotAnElection { .. } => {
            "conflict"
        }
        Error::IncompleteView { .. } => "refused",
        Error::Request(error) if error.is_permanent() => "refused",
        _ => "failed",
    }
}

impl Observer for Metrics {
    /// Shows everything that is counted, from zero on.
    fn connected(&self, of: &Subject) {
        let labels = || self.labels(of);
        counter!("semaphore_outages_total", labels()).increment(0);
        if of.is_client() {
            return;
        }
        for outcome in OUTCOMES {
            let labels = self.labels_and(of, "outcome", outcome);
            counter!("semaphore_acquisitions_total", labels).increment(0);
        }
        for reason in NAMES_OF_LOSSES {
            let labels = self.labels_and(of, "reason", reason);
            counter!("semaphore_lost_total", labels).increment(0);
        }
        counter!("semaphore_not_available_total", labels()).increment(0);
        counter!("semaphore_pruned_total", labels()).increment(0);
        gauge!("semaphore_held", labels()).increment(0.0);
        gauge!("semaphore_waiting", labels()).increment(0.0);
    }

    fn notice(&self, of: &Subject, notice: &Notice) {
        let labels = || self.labels(of);
        match notice {
            Notice::Queued { .. } => gauge!("semaphore_waiting", labels()).increment(1.0),
            Notice::Granted {
                permits, waited, ..
            } => {
                self.waited(of, "granted", *waited);
                gauge!("semaphore_held", labels()).increment(f64::from(*permits));
            }
            Notice::Failed { waited, error, .. } => {
                self.waited(of, outcome_of(error), *waited);
            }
            Notice::GivenUp { waited, .. } => self.waited(of, "given_up", *waited),
            Notice::NotAvailable { refusal, .. } => {
                if *refusal != Refusal::OthersHere {
                    gauge!("semaphore_waiting", labels()).decrement(1.0);
                }
                self.ended_as(of, "not_available");
                counter!("semaphore_not_available_total", labels()).increment(1);
            }
            Notice::Renewed { was, .. } => {
                histogram!("semaphore_lease_left_seconds", labels()).record(*was);
            }
            Notice::Lost {
                reason,
                permits,
                held,
                ..
            } => {
                let labels = self.labels_and(of, "reason", name_of_loss(reason));
                counter!("semaphore_lost_total", labels).increment(1);
                self.ended(of, *permits, *held);
            }
            Notice::Released { permits, held, .. } => self.ended(of, *permits, *held),
            Notice::Retrying { .. } => counter!("semaphore_outages_total", labels()).increment(1),
            Notice::Recovered { after } | Notice::Unasked { after } => {
                histogram!("semaphore_outage_seconds", labels()).record(*after);
            }
            Notice::Pruned { sessions } => {
                counter!("semaphore_pruned_total", labels()).increment(sessions.len() as u64);
            }
            _ => {}
        }
    }

    fn exchange(&self, exchange: &Exchange) {
        let status = exchange
            .status
            .map_or_else(|| "none".to_owned(), |it| it.to_string());
        let kind = exchange.kind;
        counter!("semaphore_requests_total", "kind" => kind, "status" => status).increment(1);
        histogram!("semaphore_request_seconds", "kind" => kind).record(exchange.took);
    }
}
