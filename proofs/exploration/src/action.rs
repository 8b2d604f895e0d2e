//! What can happen next in a state.

/// One event. The numbers are positions in the state's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A caller asks for a slot.
    Acquire(u8, u8),
    /// A caller gives its slot back.
    Release(u8, u8),
    /// A caller gives up.
    Cancel(u8, u8),
    /// A leader changes its value.
    SetValue(u8, u8),
    /// A message arrives.
    Deliver(u8),
    /// A request is lost that nobody waits for.
    Vanish(u8),
    /// A paused participant continues.
    Resume(u8),
    /// Time passes until something is due.
    Tick,
    /// Consul ends a session after its TTL.
    Expire(u8),
    /// The foreign leader resigns.
    Resign,
    /// The neighbour of a client's contender comes.
    Invite(u8),
    /// The neighbour of a client's contender gives back.
    Dismiss(u8),
    Cut(u8),
    LoseAnswer(u8),
    Delay(u8),
    Repeat(u8),
    Crash(u8),
    Pause(u8),
    Destroy(u8),
    LoseServer(u8),
}

impl Action {
    /// Whether it makes progress without a fault and without anybody giving up. Such actions may be
    /// expected to happen.
    pub(crate) fn is_progress(self) -> bool {
        matches!(
            self,
            Self::Acquire(..)
                | Self::Release(..)
                | Self::Deliver(_)
                | Self::Vanish(_)
                | Self::Resume(_)
                | Self::Resign
                | Self::Invite(_)
                | Self::Dismiss(_)
                | Self::Tick
        )
    }

    /// Whether it is a fault, of which there is a limited number.
    pub(crate) fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Cut(_)
                | Self::LoseAnswer(_)
                | Self::Delay(_)
                | Self::Repeat(_)
                | Self::Crash(_)
                | Self::Pause(_)
                | Self::Destroy(_)
                | Self::LoseServer(_)
        )
    }

    pub(crate) fn encode(self) -> u16 {
        let (kind, number) = match self {
            Self::Acquire(node, caller) => (0, node << 4 | caller),
            Self::Release(node, caller) => (1, node << 4 | caller),
            Self::Cancel(node, caller) => (2, node << 4 | caller),
            Self::Deliver(at) => (3, at),
            Self::Vanish(at) => (4, at),
            Self::Resume(at) => (5, at),
            Self::Tick => (6, 0),
            Self::Expire(at) => (7, at),
            Self::Cut(at) => (8, at),
            Self::LoseAnswer(at) => (9, at),
            Self::Delay(at) => (10, at),
            Self::Repeat(at) => (11, at),
            Self::Crash(at) => (12, at),
            Self::Pause(at) => (13, at),
            Self::Destroy(at) => (14, at),
            Self::Resign => (15, 0),
            Self::LoseServer(at) => (17, at),
            Self::Dismiss(at) => (18, at),
            Self::Invite(at) => (19, at),
            Self::SetValue(node, caller) => (16, node << 4 | caller),
        };
        u16::from_be_bytes([kind, number])
    }

    pub(crate) fn decode(code: u16) -> Self {
        let [kind, at] = code.to_be_bytes();
        let (node, caller) = (at >> 4, at & 0xf);
        match kind {
            0 => Self::Acquire(node, caller),
            1 => Self::Release(node, caller),
            2 => Self::Cancel(node, caller),
            3 => Self::Deliver(at),
            4 => Self::Vanish(at),
            5 => Self::Resume(at),
            6 => Self::Tick,
            7 => Self::Expire(at),
            8 => Self::Cut(at),
            9 => Self::LoseAnswer(at),
            10 => Self::Delay(at),
            11 => Self::Repeat(at),
            12 => Self::Crash(at),
            13 => Self::Pause(at),
            14 => Self::Destroy(at),
            16 => Self::SetValue(node, caller),
            17 => Self::LoseServer(at),
            18 => Self::Dismiss(at),
            19 => Self::Invite(at),
            _ => Self::Resign,
        }
    }
}
