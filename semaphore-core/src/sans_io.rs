//! The machines behind the handles, and their types: for your own event loop, test or model
//! checker.
//!
//! A [`Participant`] contends for the slots of a semaphore, a [`Candidate`] for the lead. Both are
//! a [`Machine`]: commands tell it what to do, and it says what to send and when to look again. A
//! [`Follow`] follows an election from outside. None of them does I/O, reads a clock or starts a
//! thread: the same inputs always lead to the same outputs.
//!
//! A [`MachineSet`] runs several machines on shared sessions.
//!
//! The crate's documentation has the loop that drives a machine. [`api`] has its requests. A
//! [`View`] is what one answer shows of a prefix, including the semaphore's [`Record`].

pub use crate::http::{Method, Priority, Request, Response};
pub use crate::id::{CommandId, Index, RequestId};
pub use crate::input::{SessionOptions, Value};
pub use crate::machine::{
    Candidate, Check, CheckNews, ElectionSettings, Event, Follow, Grant, LoanNews, LoanNo,
    LoanWish, Machine, MachineSet, Member, MemberNo, News, Notice, Origin, Participant, Reach,
    Report, Settings, Shares, Term, Transmit,
};
pub use crate::record::{Dialect, Record};
pub use crate::time::Instant;
pub use crate::transport::{TransportError, TransportErrorKind};
pub use crate::view::{Contender, Key, Lock, View};

pub mod api {
    //! The part of Consul's HTTP API that the protocol uses. Each request has one type, which
    //! builds the request and reads the answer. The machines decide, not this module.
    //!
    //! | type | request |
    //! |---|---|
    //! | [`CreateSession`] | `PUT /v1/session/create` |
    //! | [`RegisterNode`] | `PUT /v1/txn`, for the separate node that sessions may stand on |
    //! | [`RenewSession`] | `PUT /v1/session/renew/<id>` |
    //! | [`SessionInfo`] | `GET /v1/session/info/<id>` |
    //! | [`DestroySession`] | `PUT /v1/session/destroy/<id>` |
    //! | [`AcquireKey`] | `PUT /v1/kv/<key>?acquire=<session>` |
    //! | [`ReleaseKey`] | `PUT /v1/kv/<key>?release=<session>` |
    //! | [`ListSessions`] | `GET /v1/session/list` |
    //! | [`ListKeys`] | `GET /v1/kv/<prefix>/?recurse`, plain or as a blocking query |
    //! | [`ReadKey`] | `GET /v1/kv/<key>`, plain or as a blocking query |
    //! | [`CasKey`] | `PUT /v1/kv/<key>?cas=<index>` |
    //! | [`DeleteKey`] | `DELETE /v1/kv/<key>`, plain or `?cas=<index>` |
    //! | [`Txn`] | `PUT /v1/txn` |

    pub use crate::api::*;
}
