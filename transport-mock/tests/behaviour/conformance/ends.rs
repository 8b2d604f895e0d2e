//! When a real agent's sessions ended: a thread watches their list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use real_agent::Agent;
use semaphore_core::adapter::{Method, Request};
use serde_json::Value;

use crate::http::Connections;

/// The moments at which a session was first seen to be gone.
#[derive(Default)]
pub(crate) struct Ends {
    gone: Mutex<BTreeMap<String, Instant>>,
    is_over: AtomicBool,
}

impl Ends {
    /// Watches until [`stop`](Self::stop).
    pub(crate) fn watch(&self, agent: &Agent) {
        let mut connections = Connections::new(agent.addr());
        let mut index = "0".to_owned();
        let mut known = BTreeSet::new();
        while !self.is_over.load(Ordering::Relaxed) {
            let target = format!("/v1/session/list?index={index}&wait=500ms");
            let answer = connections.exchange(&Request::new(Method::Get, target));
            let seen = Instant::now();
            let list: Vec<Value> = serde_json::from_slice(answer.body()).expect("a list");
            let ids = list.iter().filter_map(|it| it["ID"].as_str());
            let ids: BTreeSet<_> = ids.map(str::to_owned).collect();
            let mut gone = self.gone.lock().unwrap();
            gone.extend(known.difference(&ids).map(|id| (id.clone(), seen)));
            drop(gone);
            known = ids;
            answer
                .header("X-Consul-Index")
                .expect("an index")
                .clone_into(&mut index);
        }
    }

    pub(crate) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, session: &str) -> Option<Instant> {
        self.gone.lock().unwrap().get(session).copied()
    }
}
