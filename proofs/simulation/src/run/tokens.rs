//! What the tokens of hosts allow.

use transport_mock::consul::{Access, Policy};

use super::Run;
use crate::history::{Happening, Who};
use crate::plan::{Hidden, Told};

impl Run<'_> {
    /// Gives every token all permissions.
    pub(super) fn forbid_nothing(&mut self) {
        let Some(told) = self.plan.access_control else {
            return;
        };
        let hosts = self.plan.hosts.iter();
        let hosts = hosts.map(|host| format!("node-{}", host.number));
        self.world.consul(|consul, _| {
            consul.set_acl_default_deny();
            consul.set_acl_reports_filtering(told == Told::InHeader);
            for token in hosts.chain(["strangers".to_owned()]) {
                consul.add_token(&token, Policy::management());
            }
        });
    }

    /// Hides something from this host at all prefixes at which it contends with others.
    pub(super) fn forbid(&mut self, number: usize, what: Hidden) {
        let host = self.hosts.get(&number);
        let mut policy = Policy::management();
        for prefix in host.iter().flat_map(|host| host.plan.places()) {
            policy = self.hidden(policy, (number, prefix), what);
        }
        self.world
            .consul(|consul, _| consul.add_token(&format!("node-{number}"), policy));
    }

    fn hidden(&self, policy: Policy, (number, prefix): (usize, usize), what: Hidden) -> Policy {
        let is_election = self.plan.place(prefix).is_election();
        let prefix = &self.prefixes[prefix];
        let (directory, lock) = (prefix.directory(), prefix.record_key());
        let seen = &self.seen;
        self.world.consul(|consul, _| {
            match what {
                // In an election others have no keys. So the token may read the only key, but not
                // write it.
                Hidden::Others if is_election => policy.with_key(&lock, Access::Read),
                Hidden::Contenders if is_election => policy.with_key(&lock, Access::Deny),
                Hidden::Everything => policy.with_key_prefix(&directory, Access::Deny),
                Hidden::Contenders => policy
                    .with_key_prefix(&directory, Access::Deny)
                    .with_key(&lock, Access::Write),
                Hidden::Others => consul
                    .entries(&directory)
                    .filter(|entry| entry.key() != lock)
                    .filter(|entry| {
                        let session = entry.session();
                        session.and_then(|it| seen.owner(it)) != Some(Who::Ours(number))
                    })
                    .fold(policy, |policy, entry| {
                        policy.with_key(&entry.key(), Access::Deny)
                    }),
            }
        })
    }

    pub(super) fn permit(&mut self, number: usize) {
        self.world.consul(|consul, _| {
            consul.add_token(&format!("node-{number}"), Policy::management());
        });
        if let Some(host) = self.hosts.get(&number) {
            host.line.lock().serve();
            self.book.happened(Happening::Served { host: number });
        }
    }

    pub(super) fn token(&self) -> Option<semaphore_core::Token> {
        self.scope("strangers").token().cloned()
    }
}
