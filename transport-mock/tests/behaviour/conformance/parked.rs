//! Which blocking queries an agent holds, by what its goroutines do.
//!
//! An agent in development mode tells the stack of each goroutine. One that holds a query stands in
//! `blockingQuery` and waits there for its table to change. A write has woken all whom it concerns before it is
//! answered, so that a query that still stands there after the answer was not concerned.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use semaphore_core::Token;
use semaphore_core::adapter::{Method, Request};

use crate::http::{Connections, NO_ANSWER};

/// The number of a goroutine, which no other one has ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Goroutine(u64);

/// The holder of this is the only one to start a query: the goroutine that comes is that of its query.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The goroutines that hold a query. There are none in an agent that is not there.
pub(crate) fn goroutines(
    connections: &mut Connections,
    token: Option<&Token>,
) -> BTreeSet<Goroutine> {
    let request = Request::new(Method::Get, "/debug/pprof/goroutine?debug=2");
    let answer = connections.exchange(&request.with_token(token.cloned()));
    let stacks = String::from_utf8_lossy(answer.body());
    match answer.status() {
        200 => stacks.split("\n\n").filter_map(waiting).collect(),
        NO_ANSWER => BTreeSet::new(),
        status => panic!("the agent does not show its goroutines: {status} {stacks:.200}"),
    }
}

/// The goroutine of this stack, if it holds a query and waits.
fn waiting(stack: &str) -> Option<Goroutine> {
    let (number, rest) = stack
        .trim_start()
        .strip_prefix("goroutine ")?
        .split_once(' ')?;
    let holds = rest.starts_with("[select")
        && rest.contains("go-memdb.")
        && rest.to_ascii_lowercase().contains("blockingquery")
        && rest.contains("net/http.(*conn).serve");
    holds.then(|| number.parse().map(Goroutine).ok())?
}

#[test]
fn a_goroutine_holds_a_query_while_it_waits_for_its_table() {
    let stack = |state: &str, waits: &str| {
        format!(
            "goroutine 144 [{state}]:\n{waits}\nagent/consul.(*Server).blockingQuery(0xc0)\nnet/http.(*conn).serve(0xc0)\n"
        )
    };
    let memdb = "github.com/hashicorp/go-memdb.watchFew(0x30)";
    assert_eq!(waiting(&stack("select", memdb)), Some(Goroutine(144)));
    assert_eq!(
        waiting(&stack("select, 2 minutes", memdb)),
        Some(Goroutine(144))
    );
    assert_eq!(waiting(&stack("runnable", memdb)), None);
    assert_eq!(waiting(&stack("select", "raft.Apply(0x30)")), None);
    assert_eq!(waiting("heap profile"), None);
}
