//! Equal situations are equal states: what can't matter any more is forgotten, and indices are renumbered by their order.
use crate::state::{
    CONTENDERS, FOREIGN, ForeignStep, Index, LATE, Op, PARTICIPANTS, SESSIONS, Session, Snapshot,
    Stage, State, Write, bit,
};

impl Snapshot {
    fn each_index(&mut self, f: &mut dyn FnMut(&mut Index)) {
        f(&mut self.last);
        f(&mut self.record);
        self.created.iter_mut().for_each(&mut *f);
        self.modified.iter_mut().for_each(f);
    }
    fn mentions(&self) -> u16 {
        let mut mask = self.holders;
        for s in 0..SESSIONS {
            mask |= u16::from(self.modified[s] != 0) << s;
        }
        mask
    }
}
impl Write {
    fn each_index(&mut self, f: &mut dyn FnMut(&mut Index)) {
        if self.exists() {
            f(&mut self.base);
            self.keys.iter_mut().for_each(&mut *f);
            f(&mut self.index);
            f(&mut self.record);
        }
    }
    fn mentions(&self) -> u16 {
        if !self.exists() {
            return 0;
        }
        let mut mask = self.names | self.prune | self.holders;
        for (op, s) in self.ops.iter().zip(self.sessions) {
            if *op != Op::None {
                mask |= bit(s);
            }
        }
        if self.prune != 0 {
            mask |= bit(self.pruner);
        }
        mask
    }
    /// Whether it can never be applied any more: indices never come again, and ended sessions stay ended.
    fn hopeless(&self, state: &State, checks: Checks) -> bool {
        if self.cas && self.base != state.consul.record {
            return true;
        }
        (0..CONTENDERS).any(|i| {
            let s = self.sessions[i] as usize;
            let checked = match self.ops[i] {
                Op::HandOver => checks.handover,
                Op::Claim => checks.claim,
                Op::Release | Op::Leave | Op::Park | Op::ParkNamed => checks.release,
                _ => false,
            };
            self.ops[i].locks() && state.sessions[s] != Session::Alive
                || checked && state.consul.modified[s] != self.keys[i]
        })
    }
}

/// Which writes check the index of their own key (all, but for a mistake), and whether the index of a list matters in this scene.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checks {
    pub(crate) handover: bool,
    pub(crate) claim: bool,
    pub(crate) release: bool,
    pub(crate) list_index: bool,
}

impl State {
    fn each_index(&mut self, f: &mut dyn FnMut(&mut Index)) {
        self.consul.each_index(f);
        if self.has_former {
            self.former.each_index(f);
        }
        f(&mut self.token);
        for p in &mut self.participants {
            f(&mut p.record);
            f(&mut p.list_index);
            f(&mut p.poll_from);
            p.line_created.iter_mut().for_each(&mut *f);
            p.line_modified.iter_mut().for_each(&mut *f);
            for c in &mut p.contenders {
                f(&mut c.key);
                f(&mut c.created);
            }
            p.write.each_index(f);
            p.tree.each_index(f);
            p.callers.iter_mut().for_each(|c| f(&mut c.floor));
            for late in &mut p.late {
                late.each_index(f);
            }
        }
        f(&mut self.foreign.base);
        f(&mut self.foreign.seen);
    }

    /// Sessions that something mentions.
    fn mentions(&self) -> u16 {
        let mut mask = self.consul.mentions();
        if self.has_former {
            mask |= self.former.mentions();
        }
        for p in &self.participants {
            mask |= p.holders | p.suspects | p.spare | p.doomed;
            for s in 0..SESSIONS {
                mask |= u16::from(p.line_created[s] != 0) << s;
            }
            for c in p.contenders.iter().filter(|c| c.used) {
                mask |= bit(c.session);
            }
            mask |= p.write.mentions() | p.tree.mentions();
            for late in &p.late {
                mask |= late.mentions();
            }
        }
        if self.foreign.exists {
            mask |= self.foreign.names;
            if !matches!(self.foreign.step, ForeignStep::Idle | ForeignStep::Done) {
                mask |= 1 << FOREIGN;
            }
        }
        mask
    }

    /// Forgets what can't matter any more and renumbers the indices. Returns whether the number of a session became free.
    pub(crate) fn canonical(&mut self, checks: Checks) -> bool {
        for q in 0..PARTICIPANTS {
            for l in 0..LATE {
                let late = self.participants[q].late[l];
                if late.exists() && late.hopeless(self, checks) {
                    self.participants[q].late[l] = Write::default();
                }
            }
            let p = &mut self.participants[q];
            if p.late[0] > p.late[1] {
                p.late.swap(0, 1);
            }
            if !checks.list_index {
                p.list_index = 0;
            }
            for caller in &mut p.callers {
                // Only the token of an applied write may be as low; each later one is higher.
                let is_low = p.write.stage == Stage::Applied && p.write.index <= caller.floor;
                caller.floor = if is_low { p.write.index } else { 0 };
            }
            p.suspects &= p.holders;
            p.prune_waits &= p.holders;
            p.seen &= p.holders;
            if p.poll_from <= p.record {
                p.poll_from = 0;
            }
        }
        let mentions = self.mentions();
        let mut freed = false;
        for s in 0..SESSIONS {
            if mentions >> s & 1 == 0 && self.sessions[s].ended() {
                self.sessions[s] = Session::Unborn;
                freed = true;
            }
        }
        let mut used = [false; 256];
        self.each_index(&mut |x| used[*x as usize] = true);
        let mut renumbered = [0; 256];
        let mut n = 0;
        for i in 1..256 {
            if used[i] {
                n += 1;
                renumbered[i] = n;
            }
        }
        self.each_index(&mut |x| *x = renumbered[*x as usize]);
        freed
    }
}
