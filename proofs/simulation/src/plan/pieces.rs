//! The parts of a plan that can be left out, one by one.

use super::{Plan, Sort};

/// One part of a plan that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Piece {
    /// A host with all its users, by its place.
    Host(usize),
    /// A user, by its host's place and its own.
    User(usize, usize),
    /// One turn of a user.
    Turn(usize, usize, usize),
    /// What one request of a host meets.
    Trouble(usize, Sort, u64),
    /// A stranger, by its place.
    Stranger(usize),
    /// A deed, by its place.
    Deed(usize),
    /// A semaphore of a host's own, by its host's place and its own.
    Own(usize, usize),
    /// An own election of a host.
    OwnElection(usize, usize),
    /// That a host shares connections at all.
    Shared(usize),
    /// That what a host has goes by one client.
    Client(usize),
}

/// The pieces of a plan, and what the plan is without some of them.
pub struct Pieces<'a> {
    plan: &'a Plan,
    all: Vec<Piece>,
}

impl<'a> Pieces<'a> {
    /// All pieces of this plan, the large ones first.
    pub fn of(plan: &'a Plan) -> Self {
        let mut all = Vec::new();
        all.extend((0..plan.deeds.len()).map(Piece::Deed));
        all.extend((0..plan.strangers.len()).map(Piece::Stranger));
        for (host, it) in plan.hosts.iter().enumerate() {
            all.push(Piece::Host(host));
            all.extend(
                it.troubles
                    .keys()
                    .map(|(sort, number)| Piece::Trouble(host, *sort, *number)),
            );
            if it.shared.is_some() {
                all.push(Piece::Shared(host));
            }
            if it.client {
                all.push(Piece::Client(host));
            }
            all.extend((0..it.own.len()).map(|own| Piece::Own(host, own)));
            let elections = 0..it.own_elections.len();
            all.extend(elections.map(|own| Piece::OwnElection(host, own)));
            for (user, it) in it.users.iter().enumerate() {
                all.push(Piece::User(host, user));
                all.extend((0..it.turns.len()).map(|turn| Piece::Turn(host, user, turn)));
            }
        }
        all.sort();
        Self { plan, all }
    }

    /// All of them.
    pub fn all(&self) -> &[Piece] {
        &self.all
    }

    /// The plan without these, which are sorted.
    pub fn without(&self, left_out: &[Piece]) -> Plan {
        let stays = |piece: Piece| left_out.binary_search(&piece).is_err();
        let mut plan = self.plan.clone();
        retain(&mut plan.deeds, |deed| stays(Piece::Deed(deed)));
        retain(&mut plan.strangers, |stranger| {
            stays(Piece::Stranger(stranger))
        });
        for (host, it) in plan.hosts.iter_mut().enumerate() {
            it.troubles
                .retain(|(sort, number), _| stays(Piece::Trouble(host, *sort, *number)));
            for (user, it) in it.users.iter_mut().enumerate() {
                retain(&mut it.turns, |turn| stays(Piece::Turn(host, user, turn)));
            }
            if !stays(Piece::Shared(host)) {
                it.shared = None;
            }
            it.client &= stays(Piece::Client(host));
            retain(&mut it.own, |own| stays(Piece::Own(host, own)));
            retain(&mut it.own_elections, |own| {
                stays(Piece::OwnElection(host, own))
            });
            retain(&mut it.users, |user| stays(Piece::User(host, user)));
        }
        retain(&mut plan.hosts, |host| stays(Piece::Host(host)));
        plan
    }
}

/// Keeps the items at the places for which this holds.
fn retain<T>(items: &mut Vec<T>, stays: impl Fn(usize) -> bool) {
    let mut place = 0;
    items.retain(|_| {
        place += 1;
        stays(place - 1)
    });
}
