//! Tells from an agent's goroutines which blocking queries it holds.
//!
//! An agent in development mode shows the stack of each goroutine. A goroutine that holds a query
//! is in `blockingQuery` and waits there for its table to change. Before a write is answered, it
//! has woken everybody that it concerns. So if a query is still there after the answer, the write
//! did not concern it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use semaphore_core::Token;
use semaphore_core::adapter::{Method, Request};

use crate::http::{Connections, NO_ANSWER};

/// The number of a goroutine. Numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Goroutine(u64);

/// Only the holder of this lock may start a query. So a new goroutine belongs to that query.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The goroutines that hold a query. An agent that is gone has none.
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

/// The goroutine of this stack, if it holds a query.
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
