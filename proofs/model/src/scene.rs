//! A scene: who takes part, and what may go wrong.
use crate::canonical::Checks;
use crate::defects::Defect;
use crate::state::{CALLERS, CANCEL, FAULTS, LOWER, PARTICIPANTS};

/// A waiter that stands at the head from the start and never acts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stuck {
    Nobody,
    OtherProgram,
    Ours,
    /// One of ours whose flags say that it belongs to a group of two; the other one is gone.
    OursOfGroup,
}

/// Who takes part, and what may go wrong.
#[derive(Clone, Debug)]
pub struct Scene {
    pub(crate) participants: usize,
    pub(crate) limit: usize,
    /// How many slots each caller of each participant wants (0: no such caller), and how often.
    pub(crate) callers: [[usize; CALLERS]; PARTICIPANTS],
    pub(crate) turns: [u8; PARTICIPANTS],
    /// Participants whose callers come again for ever, at once or (all of them) after a while.
    pub(crate) greedy: [bool; PARTICIPANTS],
    pub(crate) greedy_pauses: bool,
    /// Slots that R holds at the start.
    pub(crate) held: usize,
    /// Names of dead holders at the start, whose lock delays are over.
    pub(crate) dead: usize,
    pub(crate) foreign_turns: u8,
    pub(crate) stuck: Stuck,
    /// How many faults of each kind may happen.
    pub(crate) budget: [u8; FAULTS],
    /// The numbers of the sessions of each participant.
    pub(crate) sessions: [(usize, usize); PARTICIPANTS],
    /// A write is answered in the moment in which it is applied.
    pub(crate) quick: bool,
    /// A write is sent, applied and answered in one moment.
    pub(crate) instant: bool,
    /// The answer of an entry shows the tree of that moment (else: a later list).
    pub(crate) exact_tree: bool,
    /// A poll may also end with a read of the record only.
    pub(crate) poll_reads: bool,
    /// A poll that was begun before a claim became due may be answered after that.
    pub(crate) late_polls: bool,
    /// Polls end, PATIENCE, prunes are tried again.
    pub(crate) timers: bool,
    pub(crate) patience: bool,
    /// PATIENCE is over only when nothing else moves.
    pub(crate) slow_patience: bool,
    /// Slots may stay for STAY.
    pub(crate) stay: bool,
    /// Sessions are kept after their use.
    pub(crate) keep: bool,
    /// Sessions serve other semaphores, too: nobody may destroy them.
    pub(crate) shared: bool,
    pub(crate) most_states: usize,
    pub(crate) defect: Option<Defect>,
}

impl Scene {
    pub(crate) fn base() -> Scene {
        Scene {
            participants: 2,
            limit: 1,
            callers: [[1, 0], [1, 0], [1, 0]],
            turns: [1; PARTICIPANTS],
            greedy: [false; PARTICIPANTS],
            greedy_pauses: false,
            held: 0,
            dead: 0,
            foreign_turns: 0,
            stuck: Stuck::Nobody,
            budget: [0; FAULTS],
            sessions: [(0, 4), (4, 7), (7, 9)],
            quick: false,
            instant: false,
            exact_tree: false,
            poll_reads: false,
            late_polls: false,
            timers: false,
            patience: true,
            slow_patience: false,
            stay: false,
            keep: true,
            shared: false,
            most_states: 1_200_000,
            defect: None,
        }
    }
    /// With the tree of the very moment in an entry's answer, polls that end with a read only, and late polls.
    #[must_use]
    pub fn exactly(self) -> Scene {
        Scene {
            exact_tree: true,
            poll_reads: true,
            late_polls: true,
            ..self
        }
    }

    /// With so many states at most.
    #[must_use]
    pub fn at_most(self, most_states: usize) -> Scene {
        Scene {
            most_states,
            ..self
        }
    }

    /// The protocol without a deliberate defect is the preset `protocol`; a scene plays one rule wrongly if it has a defect.
    pub(crate) fn broken(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }
    pub(crate) fn size(&self, q: usize, k: usize) -> usize {
        self.callers[q][k]
    }
    pub(crate) fn owner(&self, session: usize) -> Option<usize> {
        (0..self.participants)
            .find(|q| (self.sessions[*q].0..self.sessions[*q].1).contains(&session))
    }
    pub(crate) fn foreign_is_other_program(&self) -> bool {
        matches!(self.stuck, Stuck::Nobody | Stuck::OtherProgram)
    }
    /// Nothing fails; callers may give up, and the limit may change.
    pub(crate) fn calm(&self) -> bool {
        self.stuck == Stuck::Nobody
            && self
                .budget
                .iter()
                .enumerate()
                .all(|(kind, n)| *n == 0 || kind == CANCEL || kind == LOWER && !self.timers)
    }
    pub(crate) fn checks(&self) -> Checks {
        Checks {
            handover: !self.broken(Defect::HandoverUnchecked),
            claim: !self.broken(Defect::ClaimUnchecked),
            release: !self.broken(Defect::ReleaseUnchecked),
            list_index: self.foreign_turns > 0 || self.stuck != Stuck::Nobody,
        }
    }
    /// Faults, participants with the slots that each caller wants ("P12": one caller wants one slot, one wants two), limit, and the rest.
    pub fn name(&self) -> String {
        let kinds = [
            "lost", "early", "crash", "copy", "former", "forget", "cancel", "unname", "unkey",
            "lower", "wipe", "deny",
        ];
        let mut words: Vec<String> = kinds
            .iter()
            .zip(self.budget)
            .filter(|(_, n)| *n > 0)
            .map(|(kind, n)| format!("{kind}{n}"))
            .collect();
        match self.stuck {
            Stuck::Nobody if words.is_empty() || self.calm() && !self.timers => {
                words.insert(0, "calm".into());
            }
            Stuck::Nobody => {}
            Stuck::OtherProgram => words.push("stuck-other".into()),
            Stuck::Ours => words.push("stuck".into()),
            Stuck::OursOfGroup => words.push("stuck-group".into()),
        }
        for q in 0..self.participants {
            let callers: String = self.callers[q]
                .iter()
                .filter(|size| **size > 0)
                .map(std::string::ToString::to_string)
                .collect();
            words.push(format!(
                "{}{callers}{}",
                ["P", "Q", "R"][q],
                if self.greedy[q] { "*" } else { "" }
            ));
        }
        if self.foreign_turns > 0 {
            words.push(format!("foreign{}", self.foreign_turns));
        }
        words.push(format!("limit{}", self.limit));
        let turns = &self.turns[..self.participants];
        if turns.iter().any(|n| *n != 1) {
            words.push(format!(
                "turns{}",
                turns
                    .iter()
                    .map(std::string::ToString::to_string)
                    .collect::<String>()
            ));
        }
        if self.held > 0 {
            words.push(format!("held{}", self.held));
        }
        if self.dead > 0 {
            words.push(format!("dead{}", self.dead));
        }
        let marks = [
            (self.shared, "shared"),
            (self.stay, "stay"),
            (self.greedy_pauses, "pauses"),
            (self.slow_patience, "slow"),
            (!self.patience && self.timers, "impatient"),
            (self.quick, "quick"),
            (self.instant, "instant"),
        ];
        words.extend(marks.iter().filter(|m| m.0).map(|m| m.1.to_string()));
        words.join(" ")
    }
}

/// Small words to build scenes with.
impl Scene {
    pub(crate) fn of(callers: [[usize; CALLERS]; PARTICIPANTS], limit: usize) -> Scene {
        let participants = callers.iter().filter(|c| c[0] > 0).count();
        let paired = callers.iter().flatten().any(|size| *size > 1);
        let sessions = match participants {
            1 if paired => [(0, 9), (9, 9), (9, 9)],
            2 if paired => [(0, 5), (5, 9), (9, 9)],
            _ => Scene::base().sessions,
        };
        Scene {
            participants,
            limit,
            callers,
            sessions,
            ..Scene::base()
        }
    }
    pub(crate) fn turns(self, p: u8, q: u8, r: u8) -> Scene {
        Scene {
            turns: [p, q, r],
            ..self
        }
    }
    /// Faults may happen, so timers matter.
    pub(crate) fn with(self, faults: &[(usize, u8)]) -> Scene {
        let mut budget = self.budget;
        for (kind, n) in faults {
            budget[*kind] = *n;
        }
        Scene {
            budget,
            timers: true,
            ..self
        }
    }
    pub(crate) fn calm_with(self, faults: &[(usize, u8)]) -> Scene {
        Scene {
            timers: false,
            ..self.with(faults)
        }
    }
    pub(crate) fn stuck(self, stuck: Stuck) -> Scene {
        Scene {
            stuck,
            timers: true,
            ..self
        }
    }
    pub(crate) fn held(self, held: usize) -> Scene {
        Scene { held, ..self }
    }
    pub(crate) fn dead(self, dead: usize) -> Scene {
        Scene { dead, ..self }
    }
    pub(crate) fn foreign(self, foreign_turns: u8) -> Scene {
        Scene {
            foreign_turns,
            ..self
        }
    }
    pub(crate) fn stay(self) -> Scene {
        Scene { stay: true, ..self }
    }
    pub(crate) fn shared(self) -> Scene {
        Scene {
            shared: true,
            ..self
        }
    }
    pub(crate) fn quick(self) -> Scene {
        Scene {
            quick: true,
            ..self
        }
    }
    pub(crate) fn instant(self) -> Scene {
        Scene {
            instant: true,
            ..self
        }
    }
    /// Their callers come again for ever; slots rotate, polls end, but nobody is helped by PATIENCE.
    pub(crate) fn greedy(self, greedy: [bool; PARTICIPANTS]) -> Scene {
        Scene {
            greedy,
            stay: true,
            timers: true,
            patience: false,
            ..self
        }
    }
    /// PATIENCE takes part, as long as it is.
    pub(crate) fn slow(self) -> Scene {
        Scene {
            patience: true,
            slow_patience: true,
            timers: true,
            ..self
        }
    }
    pub(crate) fn impatient(self) -> Scene {
        Scene {
            patience: false,
            ..self
        }
    }
}
