//! S5: fencing tokens grow strictly over all grants of a place, in the order of the writes that
//! admitted.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::Wrong;
use crate::event::{Admission, Place};

#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens {
    places: BTreeMap<Place, Vec<Grant>>,
}

/// A grant.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) admission: Admission,
    pub(crate) token: u64,
    pub(crate) permits: u32,
    pub(crate) name: String,
}

impl Tokens {
    /// If several writes may have admitted it, one of them must be in order. `limit` is the number
    /// of permits.
    pub(crate) fn grant(
        &mut self,
        (place, limit): (Place, u32),
        admissions: &[Admission],
        grant: impl Fn(Admission) -> Grant,
    ) -> Result<(), Wrong> {
        let others = self.places.entry(place).or_default();
        let mut verdict = None;
        for admission in admissions {
            let grant = grant(*admission);
            let judged = (others.iter()).try_for_each(|other| other.judge(&grant, limit));
            match (judged, &verdict) {
                (Ok(()), _) => {
                    others.push(grant);
                    return Ok(());
                }
                (Err(what), None) => verdict = Some((grant, what)),
                (Err(_), Some(_)) => {}
            }
        }
        let what = match verdict {
            // Later grants are compared with it anyway.
            Some((grant, what)) => {
                others.push(grant);
                what
            }
            None => "it was granted, and no write admitted all of it".to_owned(),
        };
        Err((place, what))
    }
}

impl Grant {
    fn judge(&self, other: &Self, limit: u32) -> Result<(), String> {
        let (one, two) = (&self.name, &other.name);
        let (first, second) = match self.order(other, limit) {
            Order::Same | Order::OfOneHistory if self.token == other.token => {
                return Err(format!("the same token {}: {one}, {two}", self.token));
            }
            Order::Unknown | Order::Same | Order::OfOneHistory => return Ok(()),
            Order::First => (self, other),
            Order::Second => (other, self),
        };
        if first.token < second.token {
            return Ok(());
        }
        Err(format!(
            "token {} is not higher than {}, which was admitted before: {}; {}",
            second.token, first.token, first.name, second.name
        ))
    }

    fn order(&self, other: &Self, limit: u32) -> Order {
        match (self.admission, other.admission) {
            (Admission::By(one), Admission::By(two)) if one.epoch == two.epoch => {
                match one.number.cmp(&two.number) {
                    Ordering::Less => Order::First,
                    Ordering::Equal => Order::Same,
                    Ordering::Greater => Order::Second,
                }
            }
            (Admission::Between { asked, known }, Admission::Between { asked: a, known: k }) => {
                let excludes = self.permits.saturating_add(other.permits) > limit;
                if known < a || (excludes && known < k) {
                    Order::First
                } else if k < asked || (excludes && k < known) {
                    Order::Second
                } else {
                    Order::OfOneHistory
                }
            }
            _ => Order::Unknown,
        }
    }
}

/// Which of two grants was admitted first.
enum Order {
    First,
    Second,
    /// The same write admitted both, and numbers them.
    Same,
    /// It is unknown, but their tokens can be compared.
    OfOneHistory,
    /// Their tokens can't be compared.
    Unknown,
}
