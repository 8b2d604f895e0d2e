//! A transaction whose operations name no namespace uses the default one, whatever `?ns=` says.
//! This test shows that the tests of namespaces would notice.

use std::sync::Arc;

use semaphore_core::adapter::{Transport, TransportError};
use semaphore_core::sans_io::{Request, Response};
use serde_json::Value;
use transport_mock::consul::{Edition, Profile, Tenancy, Version};
use transport_mock::{MockClient, MockConsul};

use crate::support::*;

/// A client that removes the namespace from every operation.
struct Forgetful(MockClient);

#[async_trait::async_trait]
impl Transport for Forgetful {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let Ok(Value::Array(mut operations)) = serde_json::from_slice(request.body()) else {
            return self.0.send(request).await;
        };
        for operation in &mut operations {
            let members = operation["KV"].as_object_mut();
            members.expect("an operation on a key").remove("Namespace");
        }
        let body = Value::Array(operations).to_string();
        let forgetful = Request::new(request.method(), request.target()).with_body(body);
        self.0.send(forgetful).await
    }
}

#[test]
fn without_it_nothing_is_acquired_since_the_session_is_elsewhere() {
    let profile = Profile {
        version: Version::V1_22,
        edition: Edition::Enterprise,
    };
    for forgets in [false, true] {
        let world = MockConsul::with_profile(1, profile);
        let client = world.client("a");
        let builder = builder(1).namespace("team");
        let semaphore = if forgets {
            let transport = Arc::new(Forgetful(client.clone()));
            builder.connect_parts(transport, Arc::new(client))
        } else {
            builder.connect(client)
        };
        let semaphore = semaphore.expect("valid settings");
        let task = world.start(async move { semaphore.acquire().await.map(std::mem::forget) });
        world.advance(secs(5));
        let team = Tenancy::of_namespace("team");
        let keys = world.consul(|consul, _| consul.entries_in(&team, PREFIX).count());
        assert_eq!(keys == 0, forgets, "{}", world.trace());
        drop(task);
    }
}
