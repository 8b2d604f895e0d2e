//! The scenes that are checked.
use crate::scene::{Scene, Stuck};
use crate::state::{
    CALLERS, CANCEL, COPY, CRASH, DENY, EARLY, FORGET, FORMER, LOST, LOWER, PARTICIPANTS, UNKEY,
    UNNAME, WIPE,
};

// Callers: of P, of P and Q, of P, Q and R.
const P: [[usize; CALLERS]; PARTICIPANTS] = [[1, 0], [0, 0], [0, 0]];

const PP: [[usize; CALLERS]; PARTICIPANTS] = [[1, 1], [0, 0], [0, 0]];

const PQ: [[usize; CALLERS]; PARTICIPANTS] = [[1, 0], [1, 0], [0, 0]];

const PPQ: [[usize; CALLERS]; PARTICIPANTS] = [[1, 1], [1, 0], [0, 0]];

const PPQQ: [[usize; CALLERS]; PARTICIPANTS] = [[1, 1], [1, 1], [0, 0]];

const PQR: [[usize; CALLERS]; PARTICIPANTS] = [[1, 0], [1, 0], [1, 0]];

const PPQR: [[usize; CALLERS]; PARTICIPANTS] = [[1, 1], [1, 0], [1, 0]];

const PPQRR: [[usize; CALLERS]; PARTICIPANTS] = [[1, 1], [1, 0], [1, 1]];

const PPQQRR: [[usize; CALLERS]; PARTICIPANTS] = [[1, 1], [1, 1], [1, 1]];

/// All scenes of the preset `protocol`.
pub fn all() -> Vec<Scene> {
    let mut scenes = calm();
    scenes.extend(faults());
    scenes.extend(others());
    scenes.extend(starvation());
    scenes.extend(groups());
    scenes
}

/// Nothing fails and no timer helps: each who waits must be woken.
fn calm() -> Vec<Scene> {
    let of = Scene::of;
    let cancel1 = [(CANCEL, 1)];
    vec![
        of(PPQ, 1),
        of(PPQ, 2),
        of(PQ, 1).turns(2, 2, 1),
        of(PP, 1).turns(2, 1, 1),
        of(PQR, 1),
        of(PQR, 2),
        of(PP, 1).foreign(1),
        of(PQ, 1).foreign(1),
        of(PQ, 2).foreign(1),
        of(P, 1).foreign(2).turns(2, 1, 1),
        of(PPQ, 1).stay(),
        of(PPQ, 2).stay(),
        of(PPQQ, 1),
        of(PPQ, 1).turns(2, 1, 1),
        of(PPQ, 2).turns(1, 2, 1),
        of(PPQ, 1).calm_with(&cancel1),
        of(PPQ, 2).calm_with(&cancel1),
        of(PQ, 1).turns(2, 2, 1).calm_with(&cancel1),
        of(PPQ, 1).turns(2, 1, 1).calm_with(&cancel1).quick(),
        of(PPQ, 2).turns(2, 1, 1).calm_with(&cancel1).quick(),
        of(PQR, 1).turns(2, 1, 1).calm_with(&cancel1).quick(),
        of(PQR, 2).turns(2, 1, 1).calm_with(&cancel1).quick(),
        of(PPQR, 1).quick(),
        of(PPQR, 2).quick(),
        of(PPQR, 2).stay().quick(),
        of(PQR, 2).turns(2, 2, 2).quick(),
        of(PPQR, 1).held(1),
        of(PPQR, 1).held(1).quick(),
        of(PPQR, 2).held(1),
        of(PPQR, 2).held(1).quick(),
        of(PPQR, 2).turns(1, 2, 1).held(1).quick(),
        of(PPQR, 2).held(1).stay().quick(),
        of(PPQRR, 2).held(2).quick(),
        of(PPQQRR, 2).held(2).quick(),
        of(PQR, 1).turns(2, 2, 1).held(1).quick(),
        of(PQR, 2).turns(2, 2, 1).held(1),
        of(PQR, 2).turns(2, 2, 1).held(1).quick(),
        of(PQR, 1)
            .turns(2, 2, 1)
            .held(1)
            .calm_with(&cancel1)
            .quick(),
        of(PPQR, 2).held(1).calm_with(&cancel1).quick(),
        of(PPQR, 1).held(1).calm_with(&[(CANCEL, 2)]).quick(),
    ]
}

fn faults() -> Vec<Scene> {
    let of = Scene::of;
    vec![
        // Lost and late writes, callers who give up.
        of(PP, 1).turns(2, 1, 1).with(&[(LOST, 1)]),
        of(PP, 1).with(&[(LOST, 2)]),
        of(PQ, 1).with(&[(LOST, 1)]),
        of(PQ, 1).with(&[(LOST, 2)]),
        of(P, 1).with(&[(LOST, 2), (CANCEL, 1)]),
        of(P, 1).with(&[(LOST, 3), (CANCEL, 1)]),
        of(PQ, 1).with(&[(LOST, 2), (CANCEL, 1)]),
        of(PPQ, 1).with(&[(LOST, 1)]),
        of(PPQ, 2).with(&[(LOST, 1)]),
        of(PP, 1).turns(2, 1, 1).with(&[(LOST, 1), (CANCEL, 1)]),
        of(PQ, 1).with(&[(LOST, 1), (CANCEL, 1)]),
        of(PQ, 1).turns(2, 1, 1).with(&[(LOST, 1), (CANCEL, 1)]),
        of(PQR, 1).with(&[(CANCEL, 1)]),
        of(PPQ, 1).with(&[(LOST, 1), (CANCEL, 1)]),
        of(PPQ, 1).stay().with(&[(LOST, 1)]),
        of(PQR, 1).with(&[(LOST, 1)]),
        of(PQR, 2).with(&[(LOST, 1)]),
        of(PP, 1).turns(2, 1, 1).with(&[(COPY, 1)]),
        of(PQ, 1).turns(2, 1, 1).with(&[(COPY, 1)]),
        of(PQ, 1).with(&[(COPY, 1), (LOST, 1)]),
        of(PQR, 1).held(1).with(&[(LOST, 1), (CANCEL, 1)]).quick(),
        of(PPQR, 2).held(1).with(&[(LOST, 1)]).quick(),
        // Sessions that end early, processes that crash.
        of(PQ, 1).with(&[(EARLY, 1)]),
        of(PPQ, 1).with(&[(EARLY, 1)]),
        of(PQ, 1).with(&[(EARLY, 2)]),
        of(PQ, 1).with(&[(EARLY, 1), (LOST, 1)]),
        of(PP, 1).with(&[(EARLY, 1), (LOST, 1)]),
        of(PQ, 1).with(&[(EARLY, 1), (LOST, 1), (CANCEL, 1)]),
        of(PPQ, 1).with(&[(EARLY, 1), (LOST, 1)]),
        of(PQR, 1).with(&[(EARLY, 1)]),
        of(PQ, 1).with(&[(EARLY, 1), (FORGET, 1)]),
        of(PQR, 1).held(1).with(&[(EARLY, 1)]).quick(),
        of(PQ, 1).with(&[(CRASH, 1)]),
        of(PPQ, 1).with(&[(CRASH, 1)]),
        of(PQ, 1).with(&[(CRASH, 1), (LOST, 1)]),
        of(PQR, 1).with(&[(CRASH, 1)]),
        of(PQR, 2).with(&[(CRASH, 1)]).quick(),
        of(PQR, 1).held(1).with(&[(CRASH, 1)]).quick(),
        of(PPQRR, 2).held(2).with(&[(CRASH, 1)]).quick(),
        // Reads from a former leader.
        of(PQ, 1).with(&[(FORMER, 1), (EARLY, 1)]),
        of(PQ, 1).with(&[(FORMER, 1), (LOST, 1)]),
        of(PQ, 1).with(&[(FORMER, 1), (LOST, 1), (CANCEL, 1)]),
        of(PQ, 1).with(&[(FORMER, 1), (EARLY, 1), (LOST, 1)]),
        of(PP, 1).with(&[(FORMER, 1), (LOST, 1), (CANCEL, 1)]),
        of(PP, 1).with(&[(FORMER, 1), (EARLY, 1), (LOST, 1), (CANCEL, 1)]),
        of(P, 1).turns(2, 1, 1).with(&[(FORMER, 1), (LOST, 1)]),
        of(PQ, 1).turns(2, 1, 1).with(&[(FORMER, 1), (CANCEL, 1)]),
        of(PQR, 1).with(&[(FORMER, 1)]).quick(),
        of(PPQ, 2).with(&[(FORMER, 1)]).quick(),
        of(PPQ, 1).with(&[(FORMER, 1), (EARLY, 1)]).quick(),
        of(PQR, 1).held(1).with(&[(FORMER, 1)]).quick(),
        of(PPQR, 2).held(1).with(&[(FORMER, 1)]).quick(),
        // Sessions that serve other semaphores, too.
        of(PP, 1).turns(2, 1, 1).shared().with(&[(LOST, 1)]),
        of(PP, 1).shared().with(&[(LOST, 1), (CANCEL, 1)]),
        of(PQ, 1).shared().with(&[(LOST, 2)]),
        of(PQ, 1).shared().with(&[(LOST, 1), (CANCEL, 1)]),
        of(PQ, 1).shared().with(&[(LOST, 2), (CANCEL, 1)]),
        of(PQ, 1).shared().with(&[(EARLY, 1), (LOST, 1)]),
        of(PPQ, 1).shared().with(&[(LOST, 1)]),
    ]
}

/// Stuck waiters, foreign clients, dead holders, and what operators do.
fn others() -> Vec<Scene> {
    let of = Scene::of;
    vec![
        of(PQ, 1).stuck(Stuck::OtherProgram),
        of(PQ, 1).stuck(Stuck::Ours),
        of(PQ, 1).stuck(Stuck::Ours).with(&[(CRASH, 1)]),
        of(PPQ, 1).stuck(Stuck::Ours).quick(),
        of(PQR, 1).stuck(Stuck::Ours).quick(),
        of(PQR, 2).stuck(Stuck::Ours).quick(),
        of(P, 1).foreign(1).with(&[(LOST, 1)]),
        of(PQ, 1).foreign(1).with(&[(CRASH, 1)]),
        of(PP, 1).turns(2, 1, 1).with(&[(UNNAME, 1)]),
        of(PQ, 1).with(&[(UNNAME, 1)]),
        of(PP, 1).with(&[(UNNAME, 1), (LOST, 1)]),
        of(PPQ, 2).with(&[(UNNAME, 1)]).quick(),
        of(PQ, 1).with(&[(UNKEY, 1)]),
        of(PQ, 1).with(&[(UNKEY, 1), (LOST, 1)]),
        // All keys of a participant are deleted by hand.
        of(P, 1).turns(2, 1, 1).with(&[(WIPE, 1)]),
        of(PQ, 1).with(&[(WIPE, 1)]),
        of(PPQ, 1).with(&[(WIPE, 1)]).quick(),
        of(PPQ, 2).with(&[(WIPE, 1)]).quick(),
        of(PP, 1).with(&[(WIPE, 2), (LOST, 1)]),
        of(PQ, 1).with(&[(WIPE, 1), (LOST, 1)]),
        of(PQ, 1).with(&[(WIPE, 1), (CANCEL, 1)]),
        of(PQ, 1).with(&[(WIPE, 1), (FORMER, 1)]).quick(),
        of(GQ, 2).with(&[(WIPE, 1)]).quick(),
        // Names of dead holders, whose lock delays are over: one list is enough.
        of(P, 1).dead(1),
        of(PP, 2).dead(2),
        of(PP, 2).dead(2).turns(2, 1, 1),
        of(PP, 2).dead(2).with(&[(LOST, 1)]),
        of(P, 2).dead(2).with(&[(LOWER, 1)]),
        of(PP, 2).dead(2).with(&[(LOWER, 1)]),
        // A key that may not be deleted.
        of(P, 1).with(&[(CANCEL, 1), (DENY, 1)]),
        of(P, 1).with(&[(LOST, 2), (CANCEL, 1), (DENY, 1)]),
        of(PQ, 1).with(&[(CANCEL, 1), (DENY, 1)]),
        of(PQ, 1).with(&[(LOST, 1), (CANCEL, 1), (DENY, 1)]).quick(),
        of(PP, 1).with(&[(LOST, 1), (CANCEL, 1), (DENY, 1)]),
        of(GQ, 2).with(&[(CANCEL, 1), (DENY, 1)]).quick(),
        // A limit that is lowered under its holders, and raised again.
        of(PQ, 2).calm_with(&[(LOWER, 2)]),
        of(PPQ, 2).calm_with(&[(LOWER, 2)]).quick(),
        of(PQR, 2).calm_with(&[(LOWER, 2)]).quick(),
        of(GQ, 3).calm_with(&[(LOWER, 2)]).quick(),
        of(PQ, 2).with(&[(LOWER, 1)]),
        of(PPQ, 2).with(&[(LOWER, 1)]).quick(),
        of(PPQ, 2).with(&[(CRASH, 1), (LOWER, 1)]).quick(),
        of(PPQ, 2)
            .stuck(Stuck::Ours)
            .with(&[(CRASH, 1), (LOWER, 1)])
            .quick(),
        of(PQR, 2).with(&[(LOWER, 1)]).quick(),
        of(PQ, 2).with(&[(LOST, 1), (LOWER, 1)]).quick(),
        of(PQ, 2).with(&[(FORMER, 1), (LOWER, 1)]).quick(),
        of(GQ, 2).with(&[(LOWER, 1)]),
        of(GQ, 2).with(&[(CRASH, 1), (LOWER, 1)]),
        of(GQ, 3).with(&[(CRASH, 1), (LOWER, 1)]).quick(),
    ]
}

/// Some callers come again for ever: the others get on nevertheless. (Not here: at a limit above 1 a claim of one slot may lose every
/// race against quick record writes of others. That is left to chance.)
fn starvation() -> Vec<Scene> {
    let of = Scene::of;
    let p = [true, false, false];
    let pr = [true, false, true];
    vec![
        of(PPQ, 1).greedy(p).quick(),
        of(PQ, 1).greedy(p),
        Scene {
            greedy_pauses: true,
            ..of(PQ, 1).greedy(p)
        },
        Scene {
            greedy_pauses: true,
            ..of(PQ, 1).turns(1, 2, 1).greedy(p)
        },
        of(PQR, 1).greedy(pr).quick(),
        Scene {
            greedy_pauses: true,
            ..of(PQR, 1).greedy(pr).quick()
        },
    ]
}

// With groups: one caller of two slots, two of them, and together with callers of one slot.
const G: [[usize; CALLERS]; PARTICIPANTS] = [[2, 0], [0, 0], [0, 0]];

const GG: [[usize; CALLERS]; PARTICIPANTS] = [[2, 2], [0, 0], [0, 0]];

const GP: [[usize; CALLERS]; PARTICIPANTS] = [[2, 1], [0, 0], [0, 0]];

const GQ: [[usize; CALLERS]; PARTICIPANTS] = [[2, 0], [1, 0], [0, 0]];

const GQQ: [[usize; CALLERS]; PARTICIPANTS] = [[2, 0], [1, 1], [0, 0]];

const G_G: [[usize; CALLERS]; PARTICIPANTS] = [[2, 0], [2, 0], [0, 0]];

const GGQ: [[usize; CALLERS]; PARTICIPANTS] = [[2, 2], [1, 0], [0, 0]];

const GPQ: [[usize; CALLERS]; PARTICIPANTS] = [[2, 1], [1, 0], [0, 0]];

const GQR: [[usize; CALLERS]; PARTICIPANTS] = [[2, 0], [1, 0], [1, 0]];

const GPQR: [[usize; CALLERS]; PARTICIPANTS] = [[2, 1], [1, 0], [1, 0]];

const G_GR: [[usize; CALLERS]; PARTICIPANTS] = [[2, 0], [2, 0], [1, 0]];

fn groups() -> Vec<Scene> {
    let of = Scene::of;
    let cancel1 = [(CANCEL, 1)];
    let q = [false, true, false];
    vec![
        // Calm: a group against single callers, two groups, groups of one participant, a group and a single caller of one.
        of(GQQ, 2),
        of(GQQ, 3),
        of(GQ, 2).turns(2, 2, 1),
        of(G_G, 2),
        of(G_G, 3),
        of(G_G, 2).turns(2, 2, 1).quick(),
        of(GG, 2).turns(2, 1, 1),
        of(GG, 3),
        of(GGQ, 2).quick(),
        of(GGQ, 3).quick(),
        of(GGQ, 2).stay().quick(),
        of(GP, 2).turns(2, 1, 1),
        of(GPQ, 2).quick(),
        of(GPQ, 3).quick(),
        of(GPQ, 2).stay().quick(),
        of(GQR, 2).quick(),
        of(GQR, 3).quick(),
        of(G_GR, 3).quick(),
        of(GQR, 2).held(1).quick(),
        of(G_GR, 2).held(1).quick(),
        of(G_GR, 3).held(1).quick(),
        of(GQ, 2).calm_with(&cancel1),
        of(GQQ, 2).calm_with(&cancel1).quick(),
        of(GPQ, 2).calm_with(&cancel1).quick(),
        of(G_G, 2).calm_with(&cancel1).quick(),
        of(GQR, 2).held(1).calm_with(&cancel1).quick(),
        of(GPQR, 2).held(1).calm_with(&cancel1).quick(),
        // Lost and late writes; a group given up while its claim is unknown.
        of(G, 2).with(&[(LOST, 2), (CANCEL, 1)]),
        of(G, 2).turns(2, 1, 1).with(&[(LOST, 2)]),
        of(GQ, 2).with(&[(LOST, 1), (CANCEL, 1)]),
        of(GQ, 2).with(&[(LOST, 2), (CANCEL, 1)]).quick(),
        of(G_G, 2).with(&[(LOST, 1)]),
        of(G_G, 3).with(&[(LOST, 1), (CANCEL, 1)]).quick(),
        of(GG, 2).turns(2, 1, 1).with(&[(LOST, 1)]),
        of(GGQ, 2).with(&[(LOST, 1)]).quick(),
        of(GPQ, 2).with(&[(LOST, 1)]).quick(),
        of(GQ, 2).with(&[(COPY, 1), (LOST, 1)]).quick(),
        of(GQ, 2).shared().with(&[(LOST, 1), (CANCEL, 1)]).quick(),
        // One of its sessions ends early, or one of its keys is deleted, while it waits or holds.
        of(G, 2).with(&[(EARLY, 1), (LOST, 1)]),
        of(GQ, 2).with(&[(EARLY, 1)]),
        of(GQ, 2).with(&[(EARLY, 2)]).quick(),
        of(GQR, 2).held(1).with(&[(EARLY, 1)]).impatient().quick(),
        of(G_G, 2).with(&[(EARLY, 1)]).quick(),
        of(GQ, 2).with(&[(UNKEY, 1)]),
        of(GQ, 2).with(&[(UNKEY, 1), (LOST, 1)]).quick(),
        of(GQR, 2).held(1).with(&[(UNKEY, 1)]).impatient().quick(),
        of(GQ, 2).with(&[(UNNAME, 1)]),
        // Crashes: two dead holders at once; a group pruned by another.
        of(GQ, 2).with(&[(CRASH, 1)]),
        of(G_G, 2).with(&[(CRASH, 1)]),
        of(GQR, 2).with(&[(CRASH, 1)]).quick(),
        of(GQ, 2).with(&[(FORMER, 1)]).quick(),
        of(G_G, 2).with(&[(FORMER, 1), (LOST, 1)]).quick(),
        // Stuck heads: one slot, a group, a group larger than the limit.
        of(GQ, 2).stuck(Stuck::Ours),
        of(GQ, 2).stuck(Stuck::OursOfGroup),
        of(PQ, 1).stuck(Stuck::OursOfGroup),
        of(PQ, 2).stuck(Stuck::OursOfGroup),
        of(G_G, 2).stuck(Stuck::OursOfGroup).quick(),
        // Starvation: single callers that come for ever, with PATIENCE as long as it is, against a group; a group that comes for ever.
        of(GQQ, 2).greedy(q).instant(),
        of(GQQ, 2).greedy(q).slow().instant(),
        of(GQQ, 3).greedy(q).slow().instant(),
        of(GQR, 2).greedy([false, true, true]).slow().instant(),
        Scene {
            greedy_pauses: true,
            ..of(GQ, 2).greedy(q).slow()
        },
        of(GQ, 2).greedy([true, false, false]).slow().quick(),
        of(G_G, 2).greedy(q).slow().quick(),
        of(G_GR, 3).greedy([false, true, true]).slow().instant(),
    ]
}
