//! The graph of what was visited, and what is judged in it: liveness.
use crate::action::Action;
use crate::explore::Verdict;
use crate::scene::Scene;
use crate::state::State;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// What was visited. Of a state only its fingerprint is kept.
#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) numbers: HashMap<u64, u32, BuildHasherDefault<Same>>,
    pub(crate) parents: Vec<(u32, Action)>,
    pub(crate) rest: Vec<bool>,
    pub(crate) waiting: Vec<bool>,
    /// Fairness bits that are possible in each state, and that lead to itself.
    pub(crate) possible: Vec<u64>,
    pub(crate) loops: Vec<u64>,
    /// Edges of state i: from first[i] to first[i + 1].
    pub(crate) first: Vec<usize>,
    pub(crate) to: Vec<u32>,
    /// The number of the edge's fairness bit, and TIMER.
    pub(crate) kind: Vec<u8>,
}

pub(crate) const TIMER: u8 = 128;

pub(crate) const ROOT: u32 = u32::MAX;

impl Graph {
    pub(crate) fn liveness(&self, scene: &Scene) -> Option<(Verdict, u32)> {
        // Who is greedy never ends, and is busy without timers.
        if !scene.greedy.contains(&true) {
            if let Some(id) = self.without_end() {
                return Some((Verdict::NoEnd, id));
            }
            if let Some(component) = self.components(|edge| self.kind[edge] & TIMER == 0).first() {
                return Some((Verdict::BusyLoop, component[0]));
            }
        }
        let components = self.components(|_| true);
        let mut component_of = vec![usize::MAX; self.rest.len()];
        for (n, component) in components.iter().enumerate() {
            for id in component {
                component_of[*id as usize] = n;
            }
        }
        let alone = (0..self.rest.len() as u32)
            .filter(|id| component_of[*id as usize] == usize::MAX && self.loops[*id as usize] != 0);
        let loops = components.iter().cloned().chain(alone.map(|id| vec![id]));
        for states in loops {
            // Somebody waits in all of its states, and whatever is always possible happens.
            let (mut always, mut happens, mut waiting) = (u64::MAX, 0, true);
            for id in states.iter().map(|id| *id as usize) {
                always &= self.possible[id];
                happens |= self.loops[id];
                waiting &= self.waiting[id];
                for edge in self.first[id]..self.first[id + 1] {
                    let inside = component_of[id] != usize::MAX
                        && component_of[self.to[edge] as usize] == component_of[id];
                    happens |= if inside {
                        1 << (self.kind[edge] & !TIMER)
                    } else {
                        0
                    };
                }
            }
            if waiting && always & !happens == 0 {
                return Some((Verdict::Starvation, states[0]));
            }
        }
        None
    }

    /// A state from which no state at rest can be reached without faults.
    fn without_end(&self) -> Option<u32> {
        let n = self.rest.len();
        let mut first = vec![0usize; n + 1];
        self.to.iter().for_each(|t| first[*t as usize + 1] += 1);
        (0..n).for_each(|i| first[i + 1] += first[i]);
        let mut from = vec![0u32; self.to.len()];
        let mut fill = first.clone();
        for i in 0..n {
            for edge in self.first[i]..self.first[i + 1] {
                let t = self.to[edge] as usize;
                from[fill[t]] = i as u32;
                fill[t] += 1;
            }
        }
        let mut good = self.rest.clone();
        let mut stack: Vec<usize> = (0..n).filter(|i| good[*i]).collect();
        while let Some(i) = stack.pop() {
            for f in &from[first[i]..first[i + 1]] {
                if !std::mem::replace(&mut good[*f as usize], true) {
                    stack.push(*f as usize);
                }
            }
        }
        good.iter().position(|g| !g).map(|i| i as u32)
    }

    /// Strongly connected components of more than one state (Tarjan's way, without recursion).
    fn components(&self, keep: impl Fn(usize) -> bool) -> Vec<Vec<u32>> {
        let n = self.rest.len();
        let mut order = vec![u32::MAX; n];
        let mut low = vec![0u32; n];
        let mut on_stack = vec![false; n];
        let (mut stack, mut calls, mut found) = (Vec::new(), Vec::new(), Vec::new());
        let mut next = 0;
        for root in 0..n {
            if order[root] != u32::MAX {
                continue;
            }
            calls.push((root, self.first[root], true));
            while let Some((v, mut edge, fresh)) = calls.pop() {
                if fresh {
                    order[v] = next;
                    low[v] = next;
                    next += 1;
                    stack.push(v as u32);
                    on_stack[v] = true;
                }
                let mut child = None;
                while edge < self.first[v + 1] && child.is_none() {
                    let w = self.to[edge] as usize;
                    if keep(edge) && order[w] == u32::MAX {
                        child = Some(w);
                    } else if keep(edge) && on_stack[w] {
                        low[v] = low[v].min(order[w]);
                    }
                    edge += 1;
                }
                if let Some(w) = child {
                    calls.push((v, edge, false));
                    calls.push((w, self.first[w], true));
                    continue;
                }
                if low[v] == order[v] {
                    let start = stack.iter().rposition(|x| *x as usize == v);
                    let component = stack.split_off(start.unwrap_or(0));
                    for x in &component {
                        on_stack[*x as usize] = false;
                    }
                    if component.len() > 1 {
                        found.push(component);
                    }
                }
                if let Some((u, _, _)) = calls.last() {
                    low[*u] = low[*u].min(low[v]);
                }
            }
        }
        found
    }
}

#[derive(Default, Clone, Copy)]
pub(crate) struct Mix(u64);

impl Mix {
    fn add(&mut self, x: u64) {
        let m = u128::from((self.0 ^ x).wrapping_add(0x9E37_79B9_7F4A_7C15))
            * 0xD6E8_FEB8_6659_FD93_u128;
        self.0 = (m as u64) ^ (m >> 64) as u64;
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        let mut last = *self;
        last.add(0x1234_5678_9ABC_DEF1);
        last.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut x = [0; 8];
            x[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(x));
        }
    }
    fn write_u8(&mut self, x: u8) {
        self.add(u64::from(x));
    }
    fn write_u16(&mut self, x: u16) {
        self.add(u64::from(x));
    }
    fn write_usize(&mut self, x: usize) {
        self.add(x as u64);
    }
}

/// For keys that are hashes already.
#[derive(Default, Clone, Copy)]
pub(crate) struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, x: u64) {
        self.0 = x;
    }
}

pub(crate) fn fingerprint(state: &State) -> u64 {
    let mut hasher = Mix::default();
    state.hash(&mut hasher);
    hasher.finish()
}
