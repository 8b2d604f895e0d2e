//! The state: what Consul's leader stores, what each participant knows, and the writes under way.
//! Sets of sessions are bit masks.

pub(crate) type Index = u8;
pub(crate) const SESSIONS: usize = 10;
pub(crate) const PARTICIPANTS: usize = 3;
pub(crate) const CONTENDERS: usize = 4;
pub(crate) const CALLERS: usize = 2;
pub(crate) const LATE: usize = 2;
/// The session of a foreign client, or of a stuck waiter.
pub(crate) const FOREIGN: usize = 9;
pub(crate) const NOBODY: u8 = 255;

pub(crate) fn bit(session: u8) -> u16 {
    1 << session
}

/// What is stored below the prefix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct Snapshot {
    /// The newest index of all.
    pub(crate) last: Index,
    /// The record's `ModifyIndex`, 0 if there is none yet.
    pub(crate) record: Index,
    pub(crate) holders: u16,
    /// The record's Limit is one less than at the start.
    pub(crate) lowered: bool,
    /// `CreateIndex` and `ModifyIndex` of each contender key, 0 if it does not exist.
    pub(crate) created: [Index; SESSIONS],
    pub(crate) modified: [Index; SESSIONS],
    /// Keys whose flags say *parked*.
    pub(crate) parked: u16,
    /// Keys whose flags say that they belong to a group of two.
    pub(crate) paired: u16,
}

impl Snapshot {
    /// The record: its index, its names, and whether its Limit was lowered.
    pub(crate) fn content(&self) -> (Index, u16, bool) {
        (self.record, self.holders, self.lowered)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) enum Session {
    #[default]
    Unborn,
    Alive,
    /// Ended; the lock delay of its key runs.
    Delayed,
    /// Ended; Consul keeps no lock delay (the key was gone before, or the leader forgot it), but its time is not over.
    Undelayed,
    /// Ended a lock delay ago, or earlier.
    Over,
}
impl Session {
    pub(crate) fn ended(self) -> bool {
        matches!(self, Session::Delayed | Session::Undelayed | Session::Over)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) enum Wish {
    #[default]
    Idle,
    Waits,
    Holds,
    Done,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct Caller {
    pub(crate) wish: Wish,
    pub(crate) turns: u8,
    /// The highest token that it could know of when it came: those of the grants before.
    pub(crate) floor: Index,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Contender {
    pub(crate) used: bool,
    pub(crate) session: u8,
    /// The newest known `ModifyIndex` of its key, 0 if absent, and its `CreateIndex`.
    pub(crate) key: Index,
    pub(crate) created: Index,
    /// The other contender of its group, while the group waits or enters.
    pub(crate) mate: u8,
    pub(crate) caller: u8,
    pub(crate) leaving: bool,
    /// An entry of it ended as unknown.
    pub(crate) open: bool,
    /// It leaves and its key was touched for that: no earlier write of it can be applied while the key is there.
    pub(crate) parked: bool,
    /// Its key is gone against its will.
    pub(crate) lost: bool,
    /// Its session is known to have ended.
    pub(crate) ended: bool,
    /// Its slot has been with this participant for STAY.
    pub(crate) stayed: bool,
    /// Its slot was given up while a caller waits here.
    pub(crate) given_up: bool,
    /// A claim of it as a newcomer was refused: it only enters.
    pub(crate) refused: bool,
    /// Mistake: its belief counts from a moment after the end of its session.
    pub(crate) late_belief: bool,
}
impl Default for Contender {
    fn default() -> Self {
        Contender {
            used: false,
            session: 0,
            key: 0,
            created: 0,
            mate: NOBODY,
            caller: NOBODY,
            leaving: false,
            open: false,
            parked: false,
            lost: false,
            ended: false,
            stayed: false,
            given_up: false,
            refused: false,
            late_belief: false,
        }
    }
}

/// What a write does for one contender (the steps of PROTOCOL.md).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, PartialOrd, Ord)]
pub(crate) enum Op {
    #[default]
    None,
    HandOver,
    Claim,
    Enter,
    EnterAndClaim,
    Release,
    Leave,
    Park,
    /// Park and remove the name.
    ParkNamed,
    /// Park a key that was never seen.
    ParkUnseen,
    /// Remove the name after the key has gone.
    RemoveName,
}
impl Op {
    /// The operation `lock`.
    pub(crate) fn locks(self) -> bool {
        !matches!(self, Op::None | Op::Release | Op::Leave | Op::RemoveName)
    }
    pub(crate) fn enters(self) -> bool {
        matches!(self, Op::Enter | Op::EnterAndClaim)
    }
    pub(crate) fn claims(self) -> bool {
        matches!(self, Op::Claim | Op::EnterAndClaim)
    }
    pub(crate) fn parks(self) -> bool {
        matches!(self, Op::Park | Op::ParkNamed | Op::ParkUnseen)
    }
    /// Nothing of it is left but its key.
    pub(crate) fn only_leaves(self) -> bool {
        matches!(self, Op::Leave | Op::Park | Op::ParkUnseen)
    }
    pub(crate) fn deletes(self) -> bool {
        matches!(self, Op::Release | Op::Leave)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, PartialOrd, Ord)]
pub(crate) enum Stage {
    #[default]
    None,
    Sent,
    Applied,
    Refused,
}

/// Why Consul refused: any of these bits.
pub(crate) const RECORD_MOVED: u8 = 1;
pub(crate) const OWN_KEY: u8 = 2;
pub(crate) const LOCK_DELAY: u8 = 4;
pub(crate) const SESSION_ENDED: u8 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, PartialOrd, Ord)]
pub(crate) struct Write {
    pub(crate) stage: Stage,
    /// Whether it contains `cas .lock`, from which index, and the names afterwards.
    pub(crate) cas: bool,
    pub(crate) base: Index,
    pub(crate) names: u16,
    /// By contender: what is done, its session, the index of its key that is checked.
    pub(crate) ops: [Op; CONTENDERS],
    pub(crate) sessions: [u8; CONTENDERS],
    pub(crate) keys: [Index; CONTENDERS],
    /// Contenders (bits) that are claimed or handed over two by two, in the order of their numbers.
    pub(crate) pairs: u8,
    /// Contenders (bits) that enter as members of a group of two.
    pub(crate) entry_pairs: u8,
    /// Dead holders whose names go, and the session that locks their keys.
    pub(crate) prune: u16,
    pub(crate) pruner: u8,
    /// Callers (bits) that waited when it was composed.
    pub(crate) came: u8,
    /// Contenders (bits) whose belief ran out before the answer came.
    pub(crate) expired: u8,
    // The answer.
    pub(crate) index: Index,
    pub(crate) record: Index,
    pub(crate) holders: u16,
    pub(crate) lowered: bool,
    pub(crate) reason: u8,
    /// Contenders (bits) that the record names right after it (to judge grants by).
    pub(crate) named: u8,
}
impl Write {
    pub(crate) fn exists(&self) -> bool {
        self.stage != Stage::None
    }
    pub(crate) fn claims(&self) -> bool {
        self.ops.iter().any(|op| op.claims())
    }
    pub(crate) fn enters(&self) -> bool {
        self.ops.iter().any(|op| op.enters())
    }
    pub(crate) fn hands_over(&self) -> bool {
        self.ops.contains(&Op::HandOver)
    }
    /// As it may still come late: its sender has forgotten it.
    pub(crate) fn given_up(&self) -> Write {
        Write {
            came: 0,
            expired: 0,
            ..*self
        }
    }
}

/// What a participant must read before its next write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, PartialOrd, Ord)]
pub(crate) enum Due {
    #[default]
    Nothing,
    NewerRecord,
    List,
    ConfirmedList,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct Participant {
    pub(crate) crashed: bool,
    pub(crate) callers: [Caller; CALLERS],
    pub(crate) contenders: [Contender; CONTENDERS],
    /// It has seen a list.
    pub(crate) known: bool,
    pub(crate) due: Due,
    pub(crate) record: Index,
    pub(crate) holders: u16,
    pub(crate) lowered: bool,
    /// The line: indices of the keys that wait, 0 if they do not, and which belong to a group of two.
    pub(crate) line_created: [Index; SESSIONS],
    pub(crate) line_modified: [Index; SESSIONS],
    pub(crate) line_paired: u16,
    pub(crate) list_index: Index,
    /// The newest list shows a waiter of somebody else.
    pub(crate) list_others: bool,
    /// Rule 5: a key was seen touched; the record is read before the next claim.
    pub(crate) touch_read: bool,
    /// Mistake: the poll sees only what is newer than this.
    pub(crate) poll_from: Index,
    /// Mistake: no poll is begun.
    pub(crate) no_poll: bool,
    /// Named without a key (rule 8), those whose key was ever seen, and those whose prune was refused by a lock delay.
    pub(crate) suspects: u16,
    pub(crate) seen: u16,
    pub(crate) prune_waits: u16,
    /// PATIENCE is over for the room of the present record.
    pub(crate) patience: bool,
    pub(crate) last_was_handover: bool,
    /// Sessions that are kept, or will be destroyed.
    pub(crate) spare: u16,
    pub(crate) doomed: u16,
    pub(crate) write: Write,
    /// The tree in the answer of an applied entry.
    pub(crate) tree: Snapshot,
    /// Writes given up that may still be applied.
    pub(crate) late: [Write; LATE],
}

/// A foreign client, which lists, claims when it sees room, and prunes at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) enum ForeignStep {
    #[default]
    Idle,
    Waits,
    Claims,
    Holds,
    Releases,
    Leaves,
    Done,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct Foreign {
    pub(crate) exists: bool,
    pub(crate) step: ForeignStep,
    pub(crate) turns: u8,
    pub(crate) base: Index,
    pub(crate) names: u16,
    pub(crate) seen: Index,
}

/// Faults (and cancelled callers) that may still happen, by number.
pub(crate) const LOST: usize = 0;
pub(crate) const EARLY: usize = 1;
pub(crate) const CRASH: usize = 2;
pub(crate) const COPY: usize = 3;
pub(crate) const FORMER: usize = 4;
pub(crate) const FORGET: usize = 5;
pub(crate) const CANCEL: usize = 6;
pub(crate) const UNNAME: usize = 7;
pub(crate) const UNKEY: usize = 8;
pub(crate) const LOWER: usize = 9;
pub(crate) const WIPE: usize = 10;
pub(crate) const DENY: usize = 11;
pub(crate) const FAULTS: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Violation {
    TooManyHolders,
    TooManyNames,
    ForeignName,
    Token,
    Unnamed,
    Partial,
    Leftover,
    Passed,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct State {
    pub(crate) consul: Snapshot,
    pub(crate) sessions: [Session; SESSIONS],
    /// A leader that was cut off and still answers plain reads, with the state that it kept.
    pub(crate) has_former: bool,
    pub(crate) former: Snapshot,
    pub(crate) participants: [Participant; PARTICIPANTS],
    pub(crate) foreign: Foreign,
    pub(crate) budget: [u8; FAULTS],
    /// The highest token so far.
    pub(crate) token: Index,
    pub(crate) violation: Option<Violation>,
}
