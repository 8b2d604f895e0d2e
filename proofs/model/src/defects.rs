//! Deliberate defects: the preset `protocol` with one rule changed. Each must be found in one of its scenes.
use crate::explore::{Report, explore};
use crate::scene::Scene;
use crate::scenes;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Defect {
    HandoverUnchecked,
    ClaimUnchecked,
    ReleaseUnchecked,
    EntryUnchecked,
    AbsentSettlesEntry,
    OpenKept,
    OpenDestroyed,
    OpenNotParked,
    PruneAtOnce,
    PruneWithoutLock,
    NoOwnClock,
    BeliefFromAnswer,
    ProofByFormer,
    LostKeepsName,
    OlderAccepted,
    HandoverBlind,
    TokenOfRecord,
    PollsNothing,
    PollsOwnKey,
    RecordBehindForeigner,
    RoomPollsRecord,
    TouchedStays,
    NextPolledFromNow,
    NoPollAfterClaim,
    PollFromNewest,
    PlacesKept,
    NoRotation,
    RotationIfPreceded,
    NewcomerRetries,
    NoPatience,
    SuspectIsNoRoom,
    SlotBySlot,
    PatienceForOne,
    LostMemberOnly,
    PartlySeenStays,
    PlacesKeptForAny,
    TokensPerCaller,
    ServesLater,
    FreeNeverNegative,
    WipedIsFiltered,
    GivesUpAlone,
    SuspectsForgotten,
    DeniedForgotten,
    DeniedLeft,
}
use Defect::{
    AbsentSettlesEntry, BeliefFromAnswer, ClaimUnchecked, DeniedForgotten, DeniedLeft,
    EntryUnchecked, FreeNeverNegative, GivesUpAlone, HandoverBlind, HandoverUnchecked,
    LostKeepsName, LostMemberOnly, NewcomerRetries, NextPolledFromNow, NoOwnClock, NoPatience,
    NoPollAfterClaim, NoRotation, OlderAccepted, OpenDestroyed, OpenKept, OpenNotParked,
    PartlySeenStays, PatienceForOne, PlacesKept, PlacesKeptForAny, PollFromNewest, PollsNothing,
    PollsOwnKey, ProofByFormer, PruneAtOnce, PruneWithoutLock, RecordBehindForeigner,
    ReleaseUnchecked, RoomPollsRecord, RotationIfPreceded, ServesLater, SlotBySlot,
    SuspectIsNoRoom, SuspectsForgotten, TokenOfRecord, TokensPerCaller, TouchedStays,
    WipedIsFiltered,
};

/// A deliberate defect, and scenes in which it must be found.
#[derive(Debug)]
pub struct Preset {
    defect: Defect,
    name: &'static str,
    sentence: &'static str,
    /// Names of scenes, tried in this order.
    scenes: &'static [&'static str],
}

impl Preset {
    /// What `trace` calls it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Which rule is wrong.
    pub fn sentence(&self) -> &'static str {
        self.sentence
    }

    /// The names of its scenes, in the order in which they are tried.
    pub fn scenes(&self) -> &'static [&'static str] {
        self.scenes
    }

    /// The first of its scenes in which it is found.
    pub fn hunt(&self) -> Option<(Scene, Report)> {
        let all = scenes::all();
        self.scenes.iter().find_map(|name| {
            let scene = all.iter().find(|it| it.name() == *name)?;
            let scene = Scene {
                defect: Some(self.defect),
                exact_tree: true,
                ..scene.clone()
            };
            let report = explore(&scene);
            (!report.is_clean()).then_some((scene, report))
        })
    }
}

/// All of them.
pub fn all() -> &'static [Preset] {
    &ALL
}

const fn preset(
    defect: Defect,
    name: &'static str,
    sentence: &'static str,
    scenes: &'static [&'static str],
) -> Preset {
    Preset {
        defect,
        name,
        sentence,
        scenes,
    }
}

static ALL: [Preset; 44] = [
    preset(
        HandoverUnchecked,
        "handover-unchecked",
        "A handover does not check the index of its key.",
        &["lost1 P11 limit1 turns2 shared"],
    ),
    preset(
        ClaimUnchecked,
        "claim-unchecked",
        "A claim does not check the index of its key.",
        &["lost2 cancel1 P1 Q1 limit1"],
    ),
    preset(
        ReleaseUnchecked,
        "release-unchecked",
        "A release does not check the index of its key.",
        &["lost2 cancel1 P1 Q1 limit1"],
    ),
    preset(
        EntryUnchecked,
        "entry-unchecked",
        "An entry does not check that its key is absent.",
        &["lost2 cancel1 P1 limit1"],
    ),
    preset(
        AbsentSettlesEntry,
        "absent-settles-entry",
        "A list without the key settles an entry that ended as unknown.",
        &["lost2 cancel1 P1 limit1"],
    ),
    preset(
        OpenKept,
        "open-kept",
        "A session with an open entry is kept like any other.",
        &["lost2 cancel1 P1 limit1"],
    ),
    preset(
        OpenDestroyed,
        "open-destroyed",
        "An open contender leaves without parking, its session is destroyed.",
        &["lost2 cancel1 P1 limit1"],
    ),
    preset(
        OpenNotParked,
        "open-not-parked",
        "A key of an open contender is not touched before its session is destroyed.",
        &["lost2 cancel1 P1 Q1 limit1"],
    ),
    preset(
        PruneAtOnce,
        "prune-at-once",
        "The name of a dead holder is removed without waiting for the lock delay.",
        &["early1 P1 Q1 limit1"],
    ),
    preset(
        PruneWithoutLock,
        "prune-without-lock",
        "A prune only checks that the dead key is absent, instead of locking it.",
        &["early1 P1 Q1 limit1"],
    ),
    preset(
        NoOwnClock,
        "no-own-clock",
        "Who saw the key of a dead holder trusts Consul's lock delay alone.",
        &["early1 forget1 P1 Q1 limit1"],
    ),
    preset(
        BeliefFromAnswer,
        "belief-from-answer",
        "A belief counts from the answer instead of the sending.",
        &["early1 P1 Q1 limit1"],
    ),
    preset(
        ProofByFormer,
        "proof-by-former",
        "A renewal answered by a former leader counts as a proof.",
        &["early1 former1 P1 Q1 limit1"],
    ),
    preset(
        LostKeepsName,
        "lost-keeps-name",
        "Who lost its session does not remove its name.",
        &["early1 P1 Q1 limit1"],
    ),
    preset(
        OlderAccepted,
        "older-accepted",
        "Older records and lists are accepted.",
        &["lost1 former1 cancel1 P11 limit1"],
    ),
    preset(
        HandoverBlind,
        "handover-blind",
        "A handover does not look at the record.",
        &["unname1 P11 limit1 turns2"],
    ),
    preset(
        TokenOfRecord,
        "token-of-record",
        "The token is the index of the record.",
        &["calm P11 Q1 limit1"],
    ),
    preset(
        PollsNothing,
        "polls-nothing",
        "A waiter polls nothing.",
        &["calm P11 Q1 limit1"],
    ),
    preset(
        PollsOwnKey,
        "polls-own-key",
        "A waiter polls its own key only.",
        &["calm P11 Q1 limit1"],
    ),
    preset(
        RecordBehindForeigner,
        "record-behind-foreigner",
        "Just behind a key of another program, a waiter polls the record instead of the prefix.",
        &["calm P11 foreign1 limit1"],
    ),
    preset(
        RoomPollsRecord,
        "room-polls-record",
        "Who sees room polls the record, no matter who is ahead.",
        &["calm P11 Q1 limit1"],
    ),
    preset(
        TouchedStays,
        "touched-stays",
        "A key that was seen touched stays in the line.",
        &["calm P1 Q1 limit1 turns22"],
    ),
    preset(
        NextPolledFromNow,
        "next-polled-from-now",
        "Only the touched key leaves the line, and the next is polled from now instead of from its index in the line.",
        &["calm P11 Q1 R1 limit1 held1 quick"],
    ),
    preset(
        NoPollAfterClaim,
        "no-poll-after-claim",
        "No poll is begun after a claim's answer.",
        &["calm P11 Q1 R1 limit2 held1 quick"],
    ),
    preset(
        PollFromNewest,
        "poll-from-newest",
        "After a refused claim the poll begins at the newest index instead of the known one.",
        &["calm P11 Q1 R1 limit1 held1 quick"],
    ),
    preset(
        PlacesKept,
        "places-kept",
        "Waiters without a caller stay, though no caller waits.",
        &["calm cancel2 P11 Q1 R1 limit1 held1 quick"],
    ),
    preset(
        NoRotation,
        "no-rotation",
        "Slots stay in their process as long as it has callers.",
        &["calm P11* Q1 limit1 stay impatient quick"],
    ),
    preset(
        RotationIfPreceded,
        "rotation-if-preceded",
        "A slot that has stayed is released only if a waiter of others precedes ours.",
        &["calm P11* Q1 limit1 stay impatient quick"],
    ),
    preset(
        NewcomerRetries,
        "newcomer-retries",
        "A newcomer that was refused tries again instead of entering.",
        &["calm P1* Q1 limit1 turns12 stay pauses impatient"],
    ),
    preset(
        NoPatience,
        "no-patience",
        "Nobody is patient: a stuck waiter is never passed.",
        &["stuck-other P1 Q1 limit1"],
    ),
    preset(
        SuspectIsNoRoom,
        "suspect-is-no-room",
        "The slot of a suspect is no room for PATIENCE.",
        &["crash1 stuck P1 Q1 limit1"],
    ),
    preset(
        SlotBySlot,
        "slot-by-slot",
        "A group claims slot by slot.",
        &["calm P2 Q11 limit2"],
    ),
    preset(
        PatienceForOne,
        "patience-for-one",
        "PATIENCE gives away the room that a group gathers.",
        &[
            "calm P2 Q1* R1* limit2 stay slow instant",
            "calm P2 Q11* limit2 stay slow instant",
        ],
    ),
    preset(
        LostMemberOnly,
        "lost-member-only",
        "A lost member leaves the others of its group in place.",
        &[
            "early1 P2 Q1 R1 limit2 held1 impatient quick",
            "early1 P2 Q1 limit2",
        ],
    ),
    preset(
        PartlySeenStays,
        "partly-seen-stays",
        "A group of which a list shows one key only goes on.",
        &["lost1 unkey1 P2 Q1 limit2 quick"],
    ),
    preset(
        PlacesKeptForAny,
        "places-kept-for-any",
        "A group without a caller keeps its place as long as a caller of any size waits.",
        &[
            "calm cancel1 P21 Q1 limit2 quick",
            "calm cancel1 P21 Q1 R1 limit2 held1 quick",
        ],
    ),
    preset(
        TokensPerCaller,
        "tokens-per-caller",
        "The grants of a write are numbered for each caller from 0.",
        &["calm P11 Q1 limit2"],
    ),
    preset(
        ServesLater,
        "serves-later",
        "A grant serves a caller that came after the write was composed.",
        &["calm P11 Q1 limit2"],
    ),
    preset(
        FreeNeverNegative,
        "free-never-negative",
        "Where a limit was lowered under its holders, free is 0, so too few names are pruned.",
        &["lower1 P1 limit2 dead2"],
    ),
    preset(
        WipedIsFiltered,
        "wiped-is-filtered",
        "A confirmed list with the record and without a key of ours is taken for a filtered one.",
        &["wipe1 P1 limit1 turns2"],
    ),
    preset(
        GivesUpAlone,
        "gives-up-alone",
        "Who gave a slot up while a caller waits here is alone as before.",
        &["calm P1* Q1 limit1 stay impatient"],
    ),
    preset(
        SuspectsForgotten,
        "suspects-forgotten",
        "An applied write of ours clears the suspects like any newer record.",
        &["calm P11 limit2 dead2"],
    ),
    preset(
        DeniedForgotten,
        "denied-forgotten",
        "Whose key may not be deleted is forgotten before its session has ended.",
        &["lost2 cancel1 deny1 P1 limit1"],
    ),
    preset(
        DeniedLeft,
        "denied-left",
        "A key that may not be deleted is left there.",
        &["cancel1 deny1 P1 limit1"],
    ),
];
