//! Visits all states of a scene, breadth first, and judges safety in each state and liveness in the graph.
use crate::action::{Action, Class, Event};
use crate::graph::{Graph, ROOT, TIMER, fingerprint};
use crate::initial::initial;
use crate::judge::at_rest;
use crate::scene::Scene;
use crate::state::{CALLERS, SESSIONS, Session, State, Violation, Wish};
use crate::step::successors;
use std::collections::VecDeque;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Clean,
    Safety(Violation),
    /// From here no run without faults ends with everybody served.
    NoEnd,
    /// There is room, somebody waits, and only a timer helps, though nothing failed.
    LostWakeup,
    /// A loop without a timer.
    BusyLoop,
    /// A weakly fair loop in which somebody waits for ever.
    Starvation,
}

impl Verdict {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Verdict::Clean => "clean",
            Verdict::Safety(Violation::TooManyHolders) => "S1: more holders than the limit",
            Verdict::Safety(Violation::TooManyNames) => "S1: more names than the limit",
            Verdict::Safety(Violation::ForeignName) => "S4: a name of others was changed",
            Verdict::Safety(Violation::Token) => "S5: a token did not rise",
            Verdict::Safety(Violation::Unnamed) => "S1: a grant that the record does not name",
            Verdict::Safety(Violation::Partial) => "groups: not all or none",
            Verdict::Safety(Violation::Passed) => {
                "queue: a slot that was given up is taken past a waiter"
            }
            Verdict::Safety(Violation::Leftover) => "L2: something is left at rest",
            Verdict::NoEnd => "L1: no run ends with everybody served",
            Verdict::LostWakeup => "L1: lost wakeup",
            Verdict::BusyLoop => "L3: a loop without a timer",
            Verdict::Starvation => "L1: somebody waits for ever",
        }
    }
}

/// What came of a scene.
pub struct Report {
    states: usize,
    whole: bool,
    verdict: Verdict,
    /// The shortest way to the violation.
    pub(crate) steps: Vec<Action>,
    seconds: f64,
}

impl Report {
    /// Whether nothing was wrong.
    pub fn is_clean(&self) -> bool {
        self.verdict == Verdict::Clean
    }

    /// What was wrong, in words.
    pub fn verdict(&self) -> &'static str {
        self.verdict.text()
    }

    /// How many states were seen.
    pub fn states(&self) -> usize {
        self.states
    }

    /// Whether these are all. Of a scene that is cut only safety and lost wakeups are judged, in its first states.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// The length of the shortest way to what is wrong, in steps.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// How long it took, in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

/// Visits all states of a scene, or as many as it allows.
pub fn explore(scene: &Scene) -> Report {
    let start = std::time::Instant::now();
    let mut graph = Graph {
        first: vec![0],
        ..Graph::default()
    };
    let mut queue: VecDeque<(State, u32)> = VecDeque::new();
    let mut out = Vec::new();
    let mut found: Option<(Verdict, u32)> = None;
    let mut sleeper: Option<u32> = None;
    let mut whole = true;
    let initial = initial(scene);
    graph.numbers.insert(fingerprint(&initial), 0);
    graph.parents.push((
        ROOT,
        Action {
            event: Event::Wants,
            who: 0,
            what: 0,
        },
    ));
    queue.push_back((initial, 0));
    'all: while let Some((state, id)) = queue.pop_front() {
        successors(&state, scene, &mut out);
        let (mut possible, mut loops) = (0, 0);
        for (action, next) in &out {
            let fresh = graph.parents.len() as u32;
            let number = *graph.numbers.entry(fingerprint(next)).or_insert(fresh);
            if number == fresh {
                graph.parents.push((id, *action));
                if let Some(violation) = next.violation {
                    found = Some((Verdict::Safety(violation), number));
                    break 'all;
                }
                if graph.parents.len() > scene.most_states {
                    whole = false;
                    break 'all;
                }
                queue.push_back((*next, number));
            }
            if action.class() == Class::Fault {
                continue;
            }
            if action.event != Event::ReadsFirst {
                possible |= action.fairness();
            }
            if number == id {
                loops |= action.fairness();
            } else {
                graph.to.push(number);
                graph.kind.push(
                    action.fairness().trailing_zeros() as u8
                        | if action.class() == Class::Timer {
                            TIMER
                        } else {
                            0
                        },
                );
            }
        }
        graph.first.push(graph.to.len());
        graph.possible.push(possible);
        graph.loops.push(loops);
        graph.rest.push(at_rest(&state, scene));
        graph
            .waiting
            .push((0..scene.participants).any(|q| !scene.greedy[q] && somebody_waits(&state, q)));
        if sleeper.is_none() && scene.calm() && asleep(&state, scene, &out) {
            sleeper = Some(id);
        }
    }
    if found.is_none() {
        found = sleeper.map(|id| (Verdict::LostWakeup, id));
    }
    if found.is_none() && whole {
        found = graph.liveness(scene);
    }
    let mut steps = Vec::new();
    if let Some((_, mut id)) = found {
        while graph.parents[id as usize].0 != ROOT {
            steps.push(graph.parents[id as usize].1);
            id = graph.parents[id as usize].0;
        }
        steps.reverse();
    }
    Report {
        states: graph.parents.len(),
        whole,
        verdict: found.map_or(Verdict::Clean, |f| f.0),
        steps,
        seconds: start.elapsed().as_secs_f64(),
    }
}

fn somebody_waits(state: &State, q: usize) -> bool {
    let p = &state.participants[q];
    !p.crashed && p.callers.iter().any(|c| c.wish == Wish::Waits)
}

/// The first of the line has room, and nobody moves unless a caller or a timer does.
pub(crate) fn asleep(state: &State, scene: &Scene, next: &[(Action, State)]) -> bool {
    if next.iter().any(|(a, s)| a.by_protocol() && s != state) {
        return false;
    }
    let consul = &state.consul;
    let is_alive = |s: &usize| consul.holders >> s & 1 == 1 && state.sessions[*s] != Session::Over;
    let names = (0..SESSIONS).filter(is_alive).count();
    let free = scene
        .limit
        .saturating_sub(names + usize::from(consul.lowered));
    let in_line = |s: &usize| {
        consul.modified[*s] != 0 && consul.parked >> s & 1 == 0 && consul.holders >> s & 1 == 0
    };
    let first = (0..SESSIONS)
        .filter(in_line)
        .map(|s| consul.created[s])
        .min();
    let head = (0..SESSIONS)
        .filter(|s| in_line(s) && Some(consul.created[*s]) == first)
        .any(|s| consul.paired >> s & 1 == 1);
    let needed = if head { 2 } else { 1 };
    (0..scene.participants).any(|q| {
        let smallest = (0..CALLERS)
            .filter(|k| state.participants[q].callers[*k].wish == Wish::Waits)
            .map(|k| scene.size(q, k))
            .min();
        somebody_waits(state, q) && free >= needed.max(smallest.unwrap_or(1))
    })
}
