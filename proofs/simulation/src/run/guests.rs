//! Guests who come after everybody else. Each is refused, shuts down, and leaves nothing.

use std::time::Duration;

use semaphore_core::{Builder, Election, Error, Semaphore};
use transport_mock::consul::Policy;

use super::contest::Contest;
use super::{Judged, Run};
use crate::check::Violation;
use crate::history::Happening;
use crate::plan::{GUEST_TTL, Plan};

/// The TTL of guests.
const USUAL: Duration = Duration::from_secs(15);

/// What is special about a guest.
struct Guest {
    token: Option<&'static str>,
    ttl: Duration,
}

impl Guest {
    fn of_election(&self, mut builder: Builder<Election>) -> Builder<Election> {
        if let Some(token) = self.token {
            builder = builder.token(token);
        }
        builder.ttl(self.ttl)
    }

    fn of_semaphore(&self, mut builder: Builder<Semaphore>) -> Builder<Semaphore> {
        if let Some(token) = self.token {
            builder = builder.token(token);
        }
        builder.adopt_limit().ttl(self.ttl)
    }
}

/// What a guest was told.
enum Told {
    /// It got in.
    Nothing,
    /// A request was refused for good.
    Refusal,
    /// Something else.
    Other(String),
}

impl Run<'_> {
    /// At each prefix a guest comes whose token allows to begin, and not to get in.
    pub(super) fn refuse_guests(&mut self) -> Judged {
        let Some(what) = self.plan.guest else {
            return Ok(());
        };
        for number in 0..self.prefixes.len() {
            let (prefix, place) = (&self.prefixes[number], self.plan.place(number));
            let policy = what.policy(Policy::management(), prefix, place);
            self.world
                .consul(|consul, _| consul.add_token("guest", policy));
            let token = Some("guest");
            let told = self.visit(number, &Guest { token, ttl: USUAL })?;
            if matches!(told, None | Some(Told::Nothing)) {
                let what = format!("a guest of {number}, who may {what}");
                self.book.happened(Happening::Left { what });
            }
        }
        self.judge_step()
    }

    /// At each prefix a guest comes whose TTL is too short for the servers. It is told so.
    pub(super) fn refuse_short_ttls(&mut self) -> Judged {
        let Some(least) = self.plan.least_ttl else {
            return Ok(());
        };
        self.world.consul(|consul, _| consul.set_least_ttl(least));
        for number in 0..self.prefixes.len() {
            let token = self.plan.access_control.map(|_| "strangers");
            let told = self.visit(
                number,
                &Guest {
                    token,
                    ttl: GUEST_TTL,
                },
            )?;
            let wrong = match told {
                Some(Told::Refusal) => {
                    let mut book = self.book.lock();
                    book.count_fault("guest refused for its short TTL");
                    continue;
                }
                Some(Told::Other(error)) => error,
                Some(Told::Nothing) => "it got in".to_owned(),
                None => "it was told nothing".to_owned(),
            };
            let what = format!("a guest of {number}, whose TTL is too short: {wrong}");
            self.book.happened(Happening::Left { what });
        }
        self.judge_step()
    }

    /// A guest waits at this prefix, and shuts down. `None` if it is still there in the end.
    fn visit(&mut self, number: usize, guest: &Guest) -> Result<Option<Told>, Violation> {
        let (prefix, place) = (&self.prefixes[number], self.plan.place(number));
        let client = self.world.client("guest");
        let guest = if place.is_election() {
            let builder = guest.of_election(Election::builder(prefix.record_key()));
            builder.connect(client).map(Contest::Election)
        } else {
            let builder = Semaphore::builder(Plan::prefix(number), self.plan.limit);
            let builder = guest.of_semaphore(builder);
            builder.connect(client).map(Contest::Semaphore)
        };
        let Ok(guest) = guest else {
            return Ok(None);
        };
        let most = self.last_requests() + self.plan.longest_vacancy();
        let mut visit = self.world.start(async move {
            let outcome = guest.wait_for(1, most).await;
            guest.shut_down().await;
            match outcome {
                Ok(_) => Told::Nothing,
                Err(Error::Request(error)) if error.is_permanent() => Told::Refusal,
                Err(error) => Told::Other(format!("{error:?}")),
            }
        });
        let end = self.world.now() + most * 2;
        let mut told = visit.try_take();
        while told.is_none() && self.world.now() < end {
            self.step(end)?;
            told = visit.try_take();
        }
        Ok(told)
    }
}
