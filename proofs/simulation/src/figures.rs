//! Counts of what happened.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::branches::Taken;
use crate::check::Counts;

/// The counts of one or more runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Plans that were run.
    pub schedules: u64,
    /// The virtual time that they took on the true clock.
    pub virtual_time: Duration,
    /// Steps, which were all judged.
    pub steps: u64,
    /// Requests that were sent.
    pub requests: u64,
    /// Grants, including leaderships.
    pub grants: u64,
    /// Leaderships among the grants.
    pub elected: u64,
    /// Values that leaders have set.
    pub values_set: u64,
    /// Grants to strangers.
    pub grants_to_strangers: u64,
    /// The releases and editions of Consul.
    pub consuls: BTreeMap<&'static str, u64>,
    /// The faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Losses by reason.
    pub losses: BTreeMap<&'static str, u64>,
    /// Acquisitions without a grant, by reason.
    pub unserved: BTreeMap<&'static str, u64>,
    /// How often each rare branch of the core was taken.
    pub branches: Taken,
    /// What each check has done.
    pub checks: BTreeMap<&'static str, Counts>,
    /// Broken invariants.
    pub violations: u64,
}

impl Figures {
    /// Adds the figures of other runs.
    pub fn add(&mut self, other: &Self) {
        self.schedules += other.schedules;
        self.virtual_time += other.virtual_time;
        self.steps += other.steps;
        self.requests += other.requests;
        self.grants += other.grants;
        self.elected += other.elected;
        self.values_set += other.values_set;
        self.grants_to_strangers += other.grants_to_strangers;
        self.violations += other.violations;
        for (name, counts) in &other.checks {
            self.checks.entry(name).or_default().add(*counts);
        }
        for (sum, other) in [
            (&mut self.consuls, &other.consuls),
            (&mut self.faults, &other.faults),
            (&mut self.losses, &other.losses),
            (&mut self.unserved, &other.unserved),
            (&mut self.branches, &other.branches),
        ] {
            for (name, count) in other {
                *sum.entry(name).or_default() += count;
            }
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.virtual_time.as_secs_f64() / 3_600.0;
        writeln!(f, "{:>12} schedules", self.schedules)?;
        writeln!(f, "{hours:>12.1} virtual hours")?;
        writeln!(f, "{:>12} steps judged", self.steps)?;
        writeln!(f, "{:>12} requests", self.requests)?;
        writeln!(f, "{:>12} grants", self.grants)?;
        writeln!(f, "{:>12} of them leaderships", self.elected)?;
        writeln!(f, "{:>12} values set by leaders", self.values_set)?;
        writeln!(f, "{:>12} grants to strangers", self.grants_to_strangers)?;
        for (title, counts) in [
            ("releases of Consul", &self.consuls),
            ("faults", &self.faults),
            ("losses", &self.losses),
            ("acquisitions without a grant", &self.unserved),
            ("rare branches taken", &self.branches),
        ] {
            writeln!(f, "{:>12} {title}", counts.values().sum::<u64>())?;
            for (name, count) in counts {
                writeln!(f, "{count:>16} {name}")?;
            }
        }
        writeln!(f, "{:>12} checks: armed, decided", self.checks.len())?;
        for (name, Counts { armed, decided }) in &self.checks {
            writeln!(f, "{armed:>16} {decided:>12} {name}")?;
        }
        write!(f, "{:>12} violations", self.violations)
    }
}
