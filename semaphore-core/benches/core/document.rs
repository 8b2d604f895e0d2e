//! A list of a prefix, with the same bytes as a Consul agent prints: on one line, sorted by key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use semaphore_core::Prefix;
use semaphore_core::sans_io::Response;
use semaphore_core::sans_io::api::SEMAPHORE_FLAGS;

/// The prefix that is listed.
pub(crate) fn prefix() -> Prefix {
    Prefix::new("service/db").expect("a prefix")
}

/// Contenders with sessions of 36 bytes and values of 20. The record names some of them.
pub(crate) struct Document {
    sessions: Vec<String>,
    holders: usize,
}

impl Document {
    pub(crate) fn new(contenders: usize, holders: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut sessions: Vec<_> = (0..contenders)
            .map(|_| {
                let hex = format!("{:032x}", rng.u128(..));
                let parts = [
                    &hex[..8],
                    &hex[8..12],
                    &hex[12..16],
                    &hex[16..20],
                    &hex[20..],
                ];
                parts.join("-")
            })
            .collect();
        sessions.sort();
        Self { sessions, holders }
    }

    /// The sessions of the contenders.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &str> {
        self.sessions.iter().map(String::as_str)
    }

    /// The value of the record.
    pub(crate) fn record(&self) -> String {
        let holders = self.sessions().take(self.holders);
        let holders: Vec<_> = holders
            .map(|session| format!(r#""{session}":true"#))
            .collect();
        let limit = self.holders.max(1);
        format!(r#"{{"Limit":{limit},"Holders":{{{}}}}}"#, holders.join(","))
    }

    /// The agent's answer to a read of the prefix.
    pub(crate) fn answer(&self) -> Response {
        let directory = prefix().directory();
        let lock = format!(
            r#"{{"LockIndex":0,"Key":"{directory}.lock","Flags":{SEMAPHORE_FLAGS},"Value":"{}","CreateIndex":1000,"ModifyIndex":99000}}"#,
            STANDARD.encode(self.record())
        );
        // The contenders' order by key is not the order in which they came.
        let mut rng = fastrand::Rng::with_seed(2);
        let mut indexes: Vec<_> = (0..self.sessions.len()).map(|at| 20_000 + at * 7).collect();
        rng.shuffle(&mut indexes);
        let contenders = self.sessions().zip(indexes).map(|(session, index)| {
            let value = STANDARD.encode(format!("worker-{index:013}"));
            format!(
                r#"{{"LockIndex":1,"Key":"{directory}{session}","Flags":{SEMAPHORE_FLAGS},"Value":"{value}","Session":"{session}","CreateIndex":{index},"ModifyIndex":{index}}}"#
            )
        });
        let entries: Vec<_> = core::iter::once(lock).chain(contenders).collect();
        Response::new(200, format!("[{}]", entries.join(",")))
            .with_header("X-Consul-Index", "99000")
    }
}
