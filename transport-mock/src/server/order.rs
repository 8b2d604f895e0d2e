//! Parses orders for faults from a command line or a path.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use percent_encoding::percent_decode_str;

use crate::fault::{Fault, Rule};
use crate::mock::MockConsul;

/// The list of orders.
pub(super) const HELP: &str = "\
PUT /mock/ORDER, or --fault ORDER:

refuse, lose-request, lose-answer, reset-before, reset-after, bad-answer, no-index, twice, 429, 500, 503
    ?times=N    so often, else until `clear`
    ?rate=0.1   with this probability
    ?target=P   only requests whose path and query contain P
    ?host=H     only those of this host
latency?ms=5 or latency?ms=5&to=50      one way, drawn for each message
delay?ms=500, delay-answer?ms=500       with times, rate, target and host as above
partition, stall, heal, lag, catch-up   ?host=H, else `1`
lose-leader, elect-leader, break-connections
clear                                   nothing goes wrong any more
";

/// An order that is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidOrder(String);

impl fmt::Display for InvalidOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for InvalidOrder {}

impl MockConsul {
    /// Injects a fault, as `GET /mock` of [`MockConsul::serve`] lists them: `partition?host=2`,
    /// `lose-answer?times=2`, `latency?ms=50`, `clear`. Rules that are given this way need not
    /// strike.
    ///
    /// # Errors
    /// [`InvalidOrder`]. Then nothing is changed.
    pub fn order(&self, order: &str) -> Result<(), InvalidOrder> {
        let (word, query) = order.split_once('?').unwrap_or((order, ""));
        let said = Said::parse(query)?;
        if let Some(fault) = fault(word, &said)? {
            let rule = rule(fault, &said, self.seed())?;
            self.inject(rule);
            return Ok(());
        }
        let host = said.text("host").unwrap_or("1");
        match word {
            "latency" => {
                let least = said.time("ms")?;
                let most = if said.text("to").is_some() {
                    said.time("to")?
                } else {
                    least
                };
                if most < least {
                    return Err(InvalidOrder("`to` is less than `ms`".to_owned()));
                }
                self.slow_down(least..=most);
            }
            "partition" => self.partition(host),
            "stall" => self.stall(host),
            "heal" => self.heal(host),
            "lag" => self.lag(host),
            "catch-up" => self.catch_up(host),
            "lose-leader" => self.lose_leader(),
            "elect-leader" => self.elect_leader(),
            "break-connections" => self.break_connections(),
            "clear" => self.clear_faults(),
            _ => return Err(InvalidOrder(format!("there is no order `{word}`"))),
        }
        Ok(())
    }
}

fn fault(word: &str, said: &Said) -> Result<Option<Fault>, InvalidOrder> {
    Ok(Some(match word {
        "refuse" => Fault::Refuse,
        "lose-request" => Fault::LoseRequest,
        "lose-answer" => Fault::LoseAnswer,
        "reset-before" => Fault::ResetBefore,
        "reset-after" => Fault::ResetAfter,
        "bad-answer" => Fault::BadAnswer,
        "no-index" => Fault::NoIndex,
        "twice" => Fault::Twice,
        "429" => Fault::too_many_requests(),
        "500" => Fault::no_leader(),
        "503" => Fault::unavailable(),
        "delay" => Fault::Delay(said.time("ms")?),
        "delay-answer" => Fault::DelayAnswer(said.time("ms")?),
        _ => return Ok(None),
    }))
}

fn rule(fault: Fault, said: &Said, seed: u64) -> Result<Rule, InvalidOrder> {
    let mut rule = Rule::new(fault).always().optional();
    if let Some(times) = said.number("times")? {
        rule = rule.times(times);
    }
    if let Some(target) = said.text("target") {
        rule = rule.target(target);
    }
    if let Some(host) = said.text("host") {
        rule = rule.host(host);
    }
    if let Some(rate) = said.number::<f64>("rate")? {
        if !(0.0..=1.0).contains(&rate) {
            return Err(InvalidOrder("`rate` is not between 0 and 1".to_owned()));
        }
        let rng = RefCell::new(Rng::with_seed(seed));
        rule = rule.matching(move |_| rng.borrow_mut().f64() < rate);
    }
    Ok(rule)
}

/// The parameters of an order.
struct Said(Vec<(String, String)>);

impl Said {
    const NAMES: [&'static str; 6] = ["times", "rate", "target", "host", "ms", "to"];

    fn parse(query: &str) -> Result<Self, InvalidOrder> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !Self::NAMES.contains(&name) {
                return Err(InvalidOrder(format!("there is no parameter `{name}`")));
            }
            let value = percent_decode_str(value).decode_utf8_lossy();
            Ok((name.to_owned(), value.into_owned()))
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value.as_str())
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, InvalidOrder> {
        let parsed = self.text(name).map(str::parse);
        let parsed = parsed.transpose();
        parsed.map_err(|_| InvalidOrder(format!("`{name}` is no number that fits")))
    }

    fn time(&self, name: &str) -> Result<Duration, InvalidOrder> {
        let milliseconds = self.number(name)?;
        let missing = || InvalidOrder(format!("`{name}` is missing"));
        milliseconds.map(Duration::from_millis).ok_or_else(missing)
    }
}
