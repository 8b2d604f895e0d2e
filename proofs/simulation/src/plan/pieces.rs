//! The parts of a plan that can be left out, one by one.

use super::{Plan, Sort};

/// A part of a plan that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Piece {
    /// A host with all its users, by its position.
    Host(usize),
    /// A user, by the positions of its host and its own.
    User(usize, usize),
    /// One turn of a user.
    Turn(usize, usize, usize),
    /// The trouble of one request of a host.
    Trouble(usize, Sort, u64),
    /// A stranger, by its position.
    Stranger(usize),
    /// A deed, by its position.
    Deed(usize),
    /// A host's own semaphore, by the positions of its host and its own.
    Own(usize, usize),
    /// A host's own election.
    OwnElection(usize, usize),
    /// A further prefix of a host, by the positions of the host and the prefix.
    Also(usize, usize),
    /// A user there.
    AlsoUser(usize, usize, usize),
    /// The sharing of a host's connections.
    Shared(usize),
    /// A host's use of one client.
    Client(usize),
}

/// The pieces of a plan, and the plan without some of them.
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
            for (at, it) in it.also.iter().enumerate() {
                all.push(Piece::Also(host, at));
                let users = 0..it.users.len();
                all.extend(users.map(|user| Piece::AlsoUser(host, at, user)));
            }
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

    /// The plan without these pieces, which must be sorted.
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
            for (at, it) in it.also.iter_mut().enumerate() {
                retain(&mut it.users, |user| stays(Piece::AlsoUser(host, at, user)));
            }
            retain(&mut it.also, |at| stays(Piece::Also(host, at)));
            retain(&mut it.users, |user| stays(Piece::User(host, user)));
        }
        retain(&mut plan.hosts, |host| stays(Piece::Host(host)));
        plan
    }
}

/// Keeps the items at the positions for which `stays` is true.
fn retain<T>(items: &mut Vec<T>, stays: impl Fn(usize) -> bool) {
    let mut place = 0;
    items.retain(|_| {
        place += 1;
        stays(place - 1)
    });
}
