//! How often things go wrong at random.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use super::Fault;

/// How often things go wrong at random: probabilities per request, from 0 to 1. The world's seed
/// alone decides which requests are hit.
///
/// ```
/// use transport_mock::{Faults, MockConsul};
///
/// let world = MockConsul::new(7);
/// world.set_faults(Faults { lose_answer: 0.05, ..Faults::none() });
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fault of the same name is documented")]
pub struct Faults {
    pub refuse: f64,
    pub lose_request: f64,
    pub lose_answer: f64,
    pub reset_before: f64,
    pub reset_after: f64,
    pub duplicate: f64,
    pub bad_answer: f64,
    pub too_many_requests: f64,
    pub unavailable: f64,
    /// The request is delayed by up to [`Faults::delay_up_to`], so that others overtake it.
    pub reorder: f64,
    /// The answer is delayed by up to [`Faults::delay_up_to`].
    pub reorder_answer: f64,
    /// The longest delay, and the longest time until a duplicate.
    pub delay_up_to: Duration,
    /// The cluster loses its leader for up to [`Faults::outage_up_to`].
    pub leader_loss: f64,
    /// The host of the request is cut off for up to [`Faults::outage_up_to`].
    pub partition: f64,
    /// The longest outage.
    pub outage_up_to: Duration,
    /// An operator destroys one of the sessions.
    pub session_loss: f64,
    /// The most faults that strike in all, or `None` for no limit.
    pub at_most: Option<u64>,
}

impl Faults {
    /// Nothing goes wrong at random.
    pub const fn none() -> Self {
        Self {
            refuse: 0.0,
            lose_request: 0.0,
            lose_answer: 0.0,
            reset_before: 0.0,
            reset_after: 0.0,
            duplicate: 0.0,
            bad_answer: 0.0,
            too_many_requests: 0.0,
            unavailable: 0.0,
            reorder: 0.0,
            reorder_answer: 0.0,
            delay_up_to: Duration::from_millis(200),
            leader_loss: 0.0,
            partition: 0.0,
            outage_up_to: Duration::from_secs(5),
            session_loss: 0.0,
            at_most: None,
        }
    }

    /// Every network fault at `rate`, and outages at a tenth of it. No session is destroyed: that
    /// loses slots, and no client can prevent it.
    pub const fn chaos(rate: f64) -> Self {
        Self {
            refuse: rate,
            lose_request: rate,
            lose_answer: rate,
            reset_before: rate,
            reset_after: rate,
            duplicate: rate,
            bad_answer: rate,
            too_many_requests: rate,
            unavailable: rate,
            reorder: rate,
            reorder_answer: rate,
            leader_loss: rate / 10.0,
            partition: rate / 10.0,
            ..Self::none()
        }
    }

    /// About half of the kinds of [`Faults::chaos`], drawn from the seed. Each has a rate of up to
    /// `most`, and outages of up to a tenth of it.
    pub fn drawn(seed: u64, most: f64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x6661_756c_7473_2121);
        let mut draw = |most: f64| {
            let rate = most * rng.f64();
            if rng.bool() { rate } else { 0.0 }
        };
        Self {
            refuse: draw(most),
            lose_request: draw(most),
            lose_answer: draw(most),
            reset_before: draw(most),
            reset_after: draw(most),
            duplicate: draw(most),
            bad_answer: draw(most),
            too_many_requests: draw(most),
            unavailable: draw(most),
            reorder: draw(most),
            reorder_answer: draw(most),
            leader_loss: draw(most / 10.0),
            partition: draw(most / 10.0),
            ..Self::none()
        }
    }

    /// Every rate with its name.
    pub(crate) fn rates_mut(&mut self) -> [(&'static str, &mut f64); 14] {
        [
            ("refuse", &mut self.refuse),
            ("lose_request", &mut self.lose_request),
            ("lose_answer", &mut self.lose_answer),
            ("reset_before", &mut self.reset_before),
            ("reset_after", &mut self.reset_after),
            ("duplicate", &mut self.duplicate),
            ("bad_answer", &mut self.bad_answer),
            ("too_many_requests", &mut self.too_many_requests),
            ("unavailable", &mut self.unavailable),
            ("reorder", &mut self.reorder),
            ("reorder_answer", &mut self.reorder_answer),
            ("leader_loss", &mut self.leader_loss),
            ("partition", &mut self.partition),
            ("session_loss", &mut self.session_loss),
        ]
    }

    /// Every rate with its name, read-only.
    pub(crate) fn rates(&self) -> [(&'static str, f64); 14] {
        let mut copy = *self;
        copy.rates_mut().map(|(name, rate)| (name, *rate))
    }

    /// Draws the fault of one exchange.
    pub(crate) fn draw(&mut self, rng: &mut Rng) -> Option<Fault> {
        if self.at_most == Some(0) {
            return None;
        }
        let drawn = self.draw_fault(rng);
        self.count(drawn.iter().len());
        drawn
    }

    fn draw_fault(&self, rng: &mut Rng) -> Option<Fault> {
        let delay = |rng: &mut Rng| up_to(rng, self.delay_up_to);
        let chances: [Chance<'_>; 11] = [
            (self.refuse, &|_| Fault::Refuse),
            (self.lose_request, &|_| Fault::LoseRequest),
            (self.lose_answer, &|_| Fault::LoseAnswer),
            (self.reset_before, &|_| Fault::ResetBefore),
            (self.reset_after, &|_| Fault::ResetAfter),
            (self.duplicate, &|rng| Fault::Duplicate(delay(rng))),
            (self.bad_answer, &|_| Fault::BadAnswer),
            (self.too_many_requests, &|_| Fault::too_many_requests()),
            (self.unavailable, &|_| Fault::unavailable()),
            (self.reorder, &|rng| Fault::Delay(delay(rng))),
            (self.reorder_answer, &|rng| Fault::DelayAnswer(delay(rng))),
        ];
        chances
            .into_iter()
            .find(|(rate, _)| happens(rng, *rate))
            .map(|(_, fault)| fault(rng))
    }

    /// Draws what happens to the world when a request is sent.
    pub(crate) fn draw_outages(&mut self, rng: &mut Rng) -> Vec<Outage> {
        let mut outages = Vec::new();
        if self.at_most == Some(0) {
            return outages;
        }
        if happens(rng, self.leader_loss) {
            outages.push(Outage::Leader(up_to(rng, self.outage_up_to)));
        }
        if happens(rng, self.partition) {
            outages.push(Outage::Partition(up_to(rng, self.outage_up_to)));
        }
        if happens(rng, self.session_loss) {
            outages.push(Outage::Session);
        }
        let left = self.at_most.and_then(|most| usize::try_from(most).ok());
        outages.truncate(left.unwrap_or(usize::MAX));
        self.count(outages.len());
        outages
    }

    /// Counts the faults that have struck.
    fn count(&mut self, struck: usize) {
        if let Some(left) = &mut self.at_most {
            *left = left.saturating_sub(struck as u64);
        }
    }
}

/// As code that a test could contain, with the fields that are not zero.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faults { ")?;
        for (name, rate) in self.rates().into_iter().filter(|(_, rate)| *rate > 0.0) {
            write!(f, "{name}: {rate}, ")?;
        }
        if let Some(most) = self.at_most {
            write!(f, "at_most: Some({most}), ")?;
        }
        f.write_str("..Faults::none() }")
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::none()
    }
}

/// A probability and the fault that strikes then.
type Chance<'a> = (f64, &'a dyn Fn(&mut Rng) -> Fault);

/// What can happen to more than one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outage {
    Leader(Duration),
    Partition(Duration),
    Session,
}

/// A rate of zero draws no number. So turning one fault on leaves the others as they were.
fn happens(rng: &mut Rng, rate: f64) -> bool {
    rate > 0.0 && rng.f64() < rate
}

fn up_to(rng: &mut Rng, longest: Duration) -> Duration {
    longest.mul_f64(rng.f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_differ_between_seeds_and_keep_to_the_rate() {
        let drawn = |seed| Faults::drawn(seed, 0.1);
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        for seed in 0..100 {
            let Faults {
                refuse,
                partition,
                session_loss,
                ..
            } = drawn(seed);
            assert!((0.0..=0.1).contains(&refuse) && (0.0..=0.01).contains(&partition));
            assert_eq!(session_loss.to_bits(), 0);
        }
        assert!((0..100).any(|seed| drawn(seed).refuse > 0.0));
    }

    #[test]
    fn no_more_strike_than_may() {
        let mut rng = Rng::with_seed(7);
        let mut faults = Faults {
            refuse: 1.0,
            leader_loss: 1.0,
            partition: 1.0,
            at_most: Some(4),
            ..Faults::none()
        };
        assert_eq!(faults.draw_outages(&mut rng).len(), 2);
        assert_eq!(faults.draw(&mut rng), Some(Fault::Refuse));
        assert_eq!(faults.draw_outages(&mut rng).len(), 1);
        assert_eq!(faults.draw(&mut rng), None);
        assert!(faults.draw_outages(&mut rng).is_empty());
    }

    #[test]
    fn they_are_shown_as_a_test_says_them() {
        let faults = Faults {
            lose_answer: 0.25,
            at_most: Some(1),
            ..Faults::none()
        };
        let shown = "Faults { lose_answer: 0.25, at_most: Some(1), ..Faults::none() }";
        assert_eq!(faults.to_string(), shown);
    }
}
