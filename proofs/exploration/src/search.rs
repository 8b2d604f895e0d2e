//! The search: breadth first, so that the first violation is one of the shortest.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use semaphore_core::Error;
use semaphore_core::sans_io::{Candidate, Participant};

use crate::action::Action;
use crate::scene::{Contest, Scene};
use crate::story;
use crate::violation::Violation;
use crate::world::{Actor, State};

/// When a search is given up.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// After so many states.
    pub states: usize,
    /// After so long.
    pub time: Duration,
    /// Whether states that are taken for one are checked to lead to the same ones, each time. Takes
    /// several times as long.
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

/// What a search found.
#[derive(Clone, Debug)]
pub struct Report {
    /// How many states there are, or were seen.
    pub states: usize,
    /// How many steps lead from one to another.
    pub transitions: usize,
    /// How many steps the longest of the shortest ways has.
    pub depth: usize,
    /// How many states were waiting to be looked at, at most.
    pub frontier: usize,
    /// How long it took.
    pub time: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a search ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Every state was seen, and nothing is wrong in any.
    Proved,
    /// The bounds were reached. Nothing was wrong so far, which proves nothing of the rest.
    Cut,
    /// A promise was broken.
    Broken {
        /// Which.
        violation: Violation,
        /// One of the shortest runs that break it.
        story: Vec<String>,
    },
}

/// Explores a scene.
///
/// # Errors
/// [`Error::InvalidInput`] for a scene that no machine can be made for.
pub fn explore(scene: &Scene, bounds: Bounds) -> Result<Report, Error> {
    match scene.contest {
        Contest::Semaphore => explore_with::<Participant>(scene, bounds),
        Contest::Election => explore_with::<Candidate>(scene, bounds),
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
    /// From which state, and by what, each state was first reached.
    origins: Vec<(u32, u16)>,
    /// The steps that may be counted on, from and to.
    progress: Vec<(u32, u32)>,
    over: Vec<u32>,
    /// What follows from each state, where that is checked.
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
            // Breadth first, so that stories are short, as long as what waits fits into memory.
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

    /// Whether what can follow from this state is what can follow from the one it is taken for.
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
        // The first of all is the only one that is not looked at.
        let known = self.sequels.get(&number);
        known.is_none_or(|known| *known == sequel)
    }

    /// The first state from which no state can be reached where all are served and gone.
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

/// How many states wait to be looked at, before those that were found last come first.
const MOST_WAITING: usize = 50_000;

/// Fingerprints are hashes already.
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
