//! The names of all that can happen.
use Event::{
    Answers, Cancels, ComesLate, Copied, Crashes, CutOff, Denied, Destroys, EndsEarly,
    ForeignMoves, Forgets, FormerDown, KeyDeleted, LateOver, Learns, LosesAnswer, LosesRequest,
    Lowered, MayPrune, Patience, PollEnds, PollEndsRecord, ProofByFormer, Reads, ReadsFirst,
    ReadsFormer, Releases, Sends, Stayed, Takes, TimeOver, TtlEnds, Unnamed, Vanishes, Wants,
    Wiped,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    // Normal events.
    Wants,
    Releases,
    Sends,
    Takes,
    Answers,
    Reads,
    Destroys,
    Learns,
    Vanishes,
    ForeignMoves,
    ReadsFirst,
    // Timers.
    PollEnds,
    PollEndsRecord,
    Patience,
    Stayed,
    TimeOver,
    MayPrune,
    TtlEnds,
    FormerDown,
    LateOver,
    // Faults, and callers who give up.
    LosesRequest,
    LosesAnswer,
    Copied,
    EndsEarly,
    Crashes,
    Cancels,
    CutOff,
    ReadsFormer,
    Forgets,
    ComesLate,
    Unnamed,
    KeyDeleted,
    Lowered,
    Wiped,
    Denied,
    ProofByFormer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Normal,
    Timer,
    Fault,
}

/// An event of a participant (0 if it has none), with a number: a caller, contender or session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Action {
    pub(crate) event: Event,
    pub(crate) who: u8,
    pub(crate) what: u8,
}

impl Action {
    pub(crate) fn class(self) -> Class {
        match self.event {
            e if (e as u8) < PollEnds as u8 => Class::Normal,
            e if (e as u8) < LosesRequest as u8 => Class::Timer,
            _ => Class::Fault,
        }
    }
    /// What the protocol itself does, without its callers and foreigners.
    pub(crate) fn by_protocol(self) -> bool {
        let foreign_waits = self.event == ForeignMoves && matches!(self.what, 0 | 3);
        self.class() == Class::Normal
            && !matches!(self.event, Wants | Releases | Vanishes)
            && !foreign_waits
    }
    /// It happens at Consul, not at a participant.
    pub(crate) fn of_consul(self) -> bool {
        matches!(
            self.event,
            ForeignMoves
                | TimeOver
                | TtlEnds
                | FormerDown
                | EndsEarly
                | CutOff
                | Forgets
                | Unnamed
                | KeyDeleted
                | Lowered
                | Wiped
        )
    }
    /// Weak fairness: what is possible without end happens. One bit for each such kind.
    pub(crate) fn fairness(self) -> u64 {
        let (p, a) = (u32::from(self.who), u32::from(self.what));
        1 << match self.event {
            Sends => p,
            Takes => 3 + p,
            Answers => 6 + p,
            Reads => 9 + p,
            PollEnds => 12 + p,
            Patience => 15 + p,
            Destroys => 18 + p,
            Stayed => 21 + p,
            MayPrune => 24 + p,
            Learns => 27 + p,
            Vanishes => 30 + p,
            Wants => 33 + 2 * p + a,
            Releases => 39 + 2 * p + a,
            ForeignMoves => 45,
            TimeOver => 46 + a,
            TtlEnds => 56,
            FormerDown => 57,
            LateOver => 58 + p,
            _ => 63,
        }
    }
    pub(crate) fn text(self) -> String {
        let text = match self.event {
            Wants => "caller # wants its slots",
            Releases => "caller # releases",
            Sends => "sends a write",
            Takes => "'s write reaches Consul",
            Answers => "gets the answer",
            Reads => "'s poll or read is answered",
            Destroys => "'s pool destroys session #",
            Learns => "learns by a renewal (404) that the session of contender # ended",
            Vanishes => "'s given-up write vanishes",
            ForeignMoves => "The foreign client goes on from step #",
            ReadsFirst => "reads the record before its write",
            PollEnds => "'s poll ends: it lists",
            PollEndsRecord => "'s poll ends: it reads the record",
            Patience => "has been patient",
            Stayed => "'s contender # has had its slot for STAY",
            TimeOver => "A lock delay after the end of session # has passed",
            MayPrune => "may try again to prune",
            TtlEnds => "TTL: Consul ends session #",
            FormerDown => "The former leader steps down",
            LateOver => "'s writes can't come late any more for contender #",
            LosesRequest => "FAULT gives its write up; it may come late",
            LosesAnswer => "FAULT loses the answer",
            Copied => "FAULT 's write is applied, a copy stays under way",
            EndsEarly => "FAULT Consul ends session # early",
            Crashes => "FAULT crashes",
            Cancels => "caller # gives up",
            CutOff => "FAULT A leader is cut off and keeps this state",
            ReadsFormer => "FAULT reads from the former leader",
            Forgets => "FAULT The leader forgets the lock delay of session #",
            ComesLate => "FAULT 's given-up write comes late",
            Unnamed => "FAULT An operator removes session # from the record",
            KeyDeleted => "FAULT An operator deletes the key of session #",
            Lowered => "FAULT An operator lowers the record's Limit by one, or raises it again",
            Wiped => "FAULT An operator deletes all keys of participant #",
            Denied => "FAULT may not delete or park its key",
            ProofByFormer => "MISTAKE takes a former leader's renewal for proof",
        };
        let text = text.replace('#', &self.what.to_string());
        if self.of_consul() {
            return text;
        }
        let name = ["P", "Q", "R"][self.who as usize];
        match text.split_once(' ') {
            Some(("FAULT", rest)) => format!("FAULT {name} {rest}").replace(" '", "'"),
            _ => format!("{name} {text}").replace(" '", "'"),
        }
    }
}
