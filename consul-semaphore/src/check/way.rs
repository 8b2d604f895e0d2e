//! Checks the address, TLS, and that there is a leader.

use semaphore_core::adapter::{InvalidEnvironment, TransportErrorKind};
use semaphore_core::sans_io::api::ReadKey;
use transport_ureq::{BuildError, RequestError};

use super::{ADDRESS, Finding, NO_LEADER, TLS, TOKEN, UNREACHABLE, get, is_of_acls, said};
use crate::agent::Agent;
use crate::failure::{Failure, whole};

/// No transport could be built. What is wrong is told of what the setting sets.
pub(super) fn unusable(failure: &Failure) -> Finding {
    let text = failure.whole();
    let Failure::Connection(error) = failure else {
        return Finding::bad("address", ADDRESS, text, "give the flag another value");
    };
    let finding = |about, exit, advice: &str| Finding::bad(about, exit, text.clone(), advice);
    let correct = "correct the variable, or unset it";
    match error {
        BuildError::File { variable, .. } if is_of_token(variable) => finding(
            "token",
            TOKEN,
            "give a file that can be read and has the token, and nothing else, in it",
        ),
        BuildError::Environment(InvalidEnvironment::Token(_)) => finding("token", TOKEN, correct),
        BuildError::Environment(InvalidEnvironment::NotUnicode { variable })
            if is_of_token(variable) =>
        {
            finding("token", TOKEN, correct)
        }
        BuildError::File { .. }
        | BuildError::CaCertificate(_)
        | BuildError::ClientCertificate(_)
        | BuildError::ClientCertificateIncomplete
        | BuildError::PlatformVerifier(_) => {
            finding("TLS", TLS, "give files in PEM that can be read")
        }
        BuildError::ServerName(_)
        | BuildError::Environment(InvalidEnvironment::Ssl | InvalidEnvironment::SslVerify) => {
            finding("TLS", TLS, correct)
        }
        BuildError::Environment(
            InvalidEnvironment::NotUnicode { .. }
            | InvalidEnvironment::Name { .. }
            | InvalidEnvironment::Auth(_),
        ) => finding("address", ADDRESS, correct),
        _ => finding(
            "address",
            ADDRESS,
            "set CONSUL_HTTP_ADDR or --http-addr to host:port, a URL, or unix:///path of a socket",
        ),
    }
}

fn is_of_token(setting: &str) -> bool {
    [
        "CONSUL_HTTP_TOKEN_FILE",
        "CONSUL_HTTP_TOKEN",
        "--token-file",
    ]
    .contains(&setting)
}

pub(super) async fn check(agent: &Agent) -> Finding {
    let answer = match get(agent, "/v1/status/leader").await {
        Ok(answer) => answer,
        Err(error) => return unanswered(agent, &error),
    };
    let leader: Option<String> = serde_json::from_slice(answer.body()).ok();
    match (answer.status(), leader) {
        (200, Some(leader)) if !leader.is_empty() => {
            Finding::good("agent", format!("it answers; Consul's leader is {leader}"))
        }
        (200, Some(_)) | (429 | 500.., _) => without_leader(agent, &said(&answer)),
        _ => untold(agent, &said(&answer)).await,
    }
}

/// An agent may keep its status to itself (`http_config.block_endpoints`), and so may what stands
/// before it. Then a read that the leader confirms shows whether it serves.
async fn untold(agent: &Agent, why: &str) -> Finding {
    let read = ReadKey {
        key: "consul-semaphore-check",
        wait: None,
        consistent: true,
    };
    let answer = match agent.send(read.request(&agent.scope())).await {
        Ok(answer) => answer,
        Err(error) => return unanswered(agent, &error),
    };
    match ReadKey::parse(&answer) {
        Err(RequestError::Unavailable { .. }) => without_leader(agent, &said(&answer)),
        Err(RequestError::Denied { text, .. }) if is_of_acls(&text) => serves(why),
        Ok(_) => serves(why),
        Err(RequestError::Denied { .. }) => Finding::bad(
            "agent",
            UNREACHABLE,
            format!(
                "{} serves no keys: {}",
                agent.place("the agent"),
                said(&answer)
            ),
            "see http_config.block_endpoints, and what stands before the agent",
        ),
        Err(_) => Finding::bad(
            "agent",
            UNREACHABLE,
            format!(
                "{} is not Consul: {}",
                agent.place("what answers"),
                said(&answer)
            ),
            "check the address, and what stands before the agent",
        ),
    }
}

fn serves(why: &str) -> Finding {
    Finding::good("agent", format!("it serves; who leads is not told: {why}"))
}

fn without_leader(agent: &Agent, said: &str) -> Finding {
    Finding::bad(
        "agent",
        NO_LEADER,
        format!("{} can't serve: {said}", agent.place("the agent")),
        "most of the servers must be up and reach each other: see `consul operator raft list-peers`",
    )
}

fn unanswered(agent: &Agent, error: &RequestError) -> Finding {
    let text = format!("{}: {}", agent.place("the agent"), whole(error));
    match error {
        RequestError::Transport(error) if error.kind() == TransportErrorKind::Misconfigured => {
            Finding::bad(
                "TLS",
                TLS,
                text,
                "check CONSUL_CACERT, CONSUL_CLIENT_CERT, CONSUL_CLIENT_KEY and CONSUL_TLS_SERVER_NAME",
            )
        }
        _ => Finding::bad(
            "agent",
            UNREACHABLE,
            text,
            "check the address, and that the agent runs",
        ),
    }
}
