//! Restarts a holder's client agent, and then kills the leader.

use std::time::Duration;

use real_agent::{Agent, Client, Cluster};

use crate::failure::Failure;
use crate::program::{Program, now, until, until_held};

const OWN: &str = "semaphores";

/// Starts holders on each backend, on a separate node and on the agent's node. Returns how many of
/// those on a separate node lost their slot.
///
/// # Errors
/// [`Failure`] if it can't be measured. A loss is not a failure.
pub(crate) fn measure(hold: Duration) -> Result<usize, Failure> {
    let mut cluster = Cluster::start_with(&Agent::builder().reaped())?;
    let mut agent = cluster.join(&Agent::builder())?;
    let mut programs = Vec::new();
    for backend in ["tokio", "threads", "smol"] {
        for is_own in [true, false] {
            let prefix = format!(
                "restarts/{backend}/{}",
                if is_own { "own" } else { "agents" }
            );
            let mut flags = vec!["--backend", backend];
            if is_own {
                flags.extend(["--own-node", OWN]);
            }
            let program = Program::start(&agent.url(), &prefix, hold, &flags)?;
            until_held(&agent.client(), &prefix)?;
            programs.push((prefix, is_own, program));
        }
    }

    agent
        .terminate()
        .map_err(Failure::system("the agent can't be ended"))?;
    println!("the client agent was ended by SIGTERM");
    agent.restart()?;
    println!("and started again");
    let leader = cluster.wait_for_leader()?;
    let node = cluster.server(leader).node().to_owned();
    cluster
        .kill(leader)
        .map_err(Failure::system("the leader can't be killed"))?;
    println!("the leader was killed with SIGKILL");
    cluster.wait_for_leader()?;
    until("the server to be reaped", || {
        !has_node(&agent.client(), &node)
    })?;
    let over = now();
    println!("and its node was taken away");

    let (mut lost, mut struck) = (0, 0);
    for (prefix, is_own, program) in programs {
        let said = program.said()?;
        if !said.is_lost && said.ended < over {
            return Err(Failure::TooShort);
        }
        let outcome = if said.is_lost { "lost" } else { "kept" };
        println!("{prefix}: {outcome}");
        let counted = if is_own { &mut lost } else { &mut struck };
        *counted += usize::from(said.is_lost);
    }
    println!("on a separate node: lost {lost} of 3; on the agent's: lost {struck} of 3");
    match struck {
        3 => Ok(lost),
        _ => Err(Failure::NotStruck("holds on the agent's node lasted")),
    }
}

fn has_node(client: &Client, node: &str) -> bool {
    let nodes = client
        .get("/v1/catalog/nodes")
        .and_then(|answer| answer.json());
    // Without an answer it is unknown.
    nodes.map_or(true, |nodes| {
        let mut nodes = nodes.as_array().into_iter().flatten();
        nodes.any(|it| it["Node"] == node)
    })
}
