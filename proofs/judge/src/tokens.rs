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

/// A grant, as it is told.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) admission: Admission,
    pub(crate) token: u64,
    pub(crate) permits: u32,
    pub(crate) name: String,
}

impl Tokens {
    /// Of several writes that may have admitted it, one has to be in order. `limit` is how many permits there are.
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
            // Those who come later are compared with it all the same.
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
    /// Both by the same write, which numbers those that it admits.
    Same,
    /// That can't be told, but their tokens compare.
    OfOneHistory,
    /// Their tokens do not even compare.
    Unknown,
}
