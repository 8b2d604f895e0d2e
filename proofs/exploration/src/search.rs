//! The search. It is breadth first, so the first violation is one of the shortest.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use semaphore_core::Error;
use semaphore_core::sans_io::{Candidate, Participant};

use crate::action::Action;
use crate::scene::{Contest, Scene};
use crate::story;
use crate::violation::Violation;
use crate::world::{Actor, Client, State};

/// The limits of a search.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most states.
    pub states: usize,
    /// The longest time.
    pub time: Duration,
    /// Whether to check that states which count as the same have the same following states. This
    /// takes several times as long.
    pub checks_sameness: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            states: 40_000_000,
            time: Duration::from_hours(24),
            checks_sameness: false,
        }
    }
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Report {
    /// The number of states found.
    pub states: usize,
    /// The number of steps between states.
    pub transitions: usize,
    /// The number of steps to the state that is farthest from the first one.
    pub depth: usize,
    /// The most states that were waiting at the same time.
    pub frontier: usize,
    /// How long it took.
    pub time: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

/// The end of a search.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Every state was visited, and none breaks a promise.
    Proved,
    /// The limits were reached. The states so far are right, which proves nothing about the others.
    Cut,
    /// A promise was broken.
    Broken {
        /// The broken promise.
        violation: Violation,
        /// One of the shortest runs that break it.
        story: Vec<String>,
    },
}

/// Explores a scene.
///
/// # Errors
/// [`Error::InvalidInput`] if a machine can't be built for the scene.
pub fn explore(scene: &Scene, bounds: Bounds) -> Result<Report, Error> {
    match (scene.contest, scene.is_in_clients()) {
        (Contest::Semaphore, false) => explore_with::<Participant>(scene, bounds),
        (Contest::Semaphore, true) => explore_with::<Client<Participant>>(scene, bounds),
        (Contest::Election, false) => explore_with::<Candidate>(scene, bounds),
        (Contest::Election, true) => explore_with::<Client<Candidate>>(scene, bounds),
    }
}

fn explore_with<A: Actor>(scene: &Scene, bounds: Bounds) -> Result<Report, Error> {
    let started = Instant::now();
    let mut search = Search::default();
    let found = search.run::<A>(scene, bounds, started)?;
    let outcome = match found {
        End::Seen => match search.hopeless() {
            None => Outcome::Proved,
            Some(state) => {
                let violation = if search.is_dead_end(state) {
                    Violation::Stuck
                } else {
                    Violation::Hopeless
                };
                let story = story::tell::<A>(scene, &search.way_to(state))?;
                Outcome::Broken { violation, story }
            }
        },
        End::Cut => Outcome::Cut,
        End::Broken(state, action, violation) => {
            let mut way = search.way_to(state);
            way.push(action);
            let story = story::tell::<A>(scene, &way)?;
            Outcome::Broken { violation, story }
        }
    };
    Ok(Report {
        states: search.origins.len(),
        transitions: search.transitions,
        depth: search.depth,
        frontier: search.frontier,
        time: started.elapsed(),
        outcome,
    })
}

enum End {
    Seen,
    Cut,
    Broken(u32, Action, Violation),
}

#[derive(Default)]
struct Search {
    known: HashMap<u128, u32, BuildHasherDefault<AsItIs>>,
    /// For each state, the state and the action from which it was first reached.
    origins: Vec<(u32, u16)>,
    /// The steps that may be expected to happen, as pairs of states.
    progress: Vec<(u32, u32)>,
    over: Vec<u32>,
    /// The states that follow each state, if that is checked.
    sequels: HashMap<u32, Vec<u128>>,
    transitions: usize,
    depth: usize,
    frontier: usize,
}

impl Search {
    fn run<A: Actor>(
        &mut self,
        scene: &Scene,
        bounds: Bounds,
        started: Instant,
    ) -> Result<End, Error> {
        let first = State::<A>::new(scene)?;
        let mut queue = VecDeque::new();
        self.add(&first, scene, (0, 0));
        queue.push_back((0, 0, first));
        loop {
            // Breadth first, so stories are short. This lasts while the waiting states fit into
            // memory.
            let next = if queue.len() < MOST_WAITING {
                queue.pop_front()
            } else {
                queue.pop_back()
            };
            let Some((number, depth, state)) = next else {
                return Ok(End::Seen);
            };
            self.depth = self.depth.max(depth);
            self.frontier = self.frontier.max(queue.len());
            let is_late = number % 1_024 == 0 && started.elapsed() > bounds.time;
            if self.origins.len() > bounds.states || is_late {
                return Ok(End::Cut);
            }
            for action in state.options(scene) {
                let next = match state.after(scene, action) {
                    Ok(next) => next,
                    Err(violation) => return Ok(End::Broken(number, action, violation)),
                };
                self.transitions += 1;
                let (to, is_new) = self.add(&next, scene, (number, action.encode()));
                if bounds.checks_sameness && !self.is_same(scene, &next, to, is_new) {
                    return Ok(End::Broken(number, action, Violation::NotTheSame));
                }
                if state.counts_on(action) && to != number {
                    self.progress.push((number, to));
                }
                if is_new {
                    queue.push_back((to, depth + 1, next));
                }
            }
        }
    }

    fn add<A: Actor>(
        &mut self,
        state: &State<A>,
        scene: &Scene,
        origin: (u32, u16),
    ) -> (u32, bool) {
        let number = u32::try_from(self.origins.len()).unwrap_or(u32::MAX);
        let found = *self.known.entry(state.fingerprint(scene)).or_insert(number);
        let is_new = found == number;
        if is_new {
            self.origins.push(origin);
            if state.is_over(scene) {
                self.over.push(number);
            }
        }
        (found, is_new)
    }

    /// Whether this state and the known state with the same fingerprint have the same following
    /// states.
    fn is_same<A: Actor>(
        &mut self,
        scene: &Scene,
        state: &State<A>,
        number: u32,
        is_new: bool,
    ) -> bool {
        let options = state.options(scene).into_iter();
        let mut sequel: Vec<_> = options
            .map(|action| match state.after(scene, action) {
                Ok(next) => next.fingerprint(scene),
                Err(_) => 0,
            })
            .collect();
        sequel.push(u128::from(state.is_over(scene)));
        sequel.sort_unstable();
        sequel.dedup();
        if is_new {
            self.sequels.insert(number, sequel);
            return true;
        }
        // Only the very first state has not been recorded.
        let known = self.sequels.get(&number);
        known.is_none_or(|known| *known == sequel)
    }

    /// The first state from which no state can be reached in which everybody is served and gone.
    fn hopeless(&mut self) -> Option<u32> {
        self.progress.sort_unstable_by_key(|(_, to)| *to);
        let mut hopeful = vec![false; self.origins.len()];
        let mut pending = self.over.clone();
        for state in &pending {
            hopeful[*state as usize] = true;
        }
        while let Some(state) = pending.pop() {
            let first = self.progress.partition_point(|(_, to)| *to < state);
            for (from, _) in self.progress[first..]
                .iter()
                .take_while(|(_, to)| *to == state)
            {
                if !core::mem::replace(&mut hopeful[*from as usize], true) {
                    pending.push(*from);
                }
            }
        }
        let at = hopeful.iter().position(|hopeful| !hopeful)?;
        u32::try_from(at).ok()
    }

    fn is_dead_end(&self, state: u32) -> bool {
        self.progress.iter().all(|(from, _)| *from != state)
    }

    fn way_to(&self, mut state: u32) -> Vec<Action> {
        let mut way = Vec::new();
        while state != 0 {
            let (from, action) = self.origins[state as usize];
            way.push(Action::decode(action));
            state = from;
        }
        way.reverse();
        way
    }
}

/// With more waiting states than this, those that were found last come first.
const MOST_WAITING: usize = 50_000;

/// Fingerprints are hashes already, so they are used as they are.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }
}
