//! Foreign keys below a semaphore's prefix: half of them directly below it, half deeper.

use real_agent::Agent;

use crate::failure::Failure;

/// Writes `count` keys of others there.
///
/// # Errors
/// [`Failure::System`].
pub(crate) fn put(agent: &Agent, prefix: &str, count: u32) -> Result<(), Failure> {
    let client = agent.client();
    for number in 0..count {
        let name = if number % 2 == 0 {
            "config"
        } else {
            "shards/a"
        };
        let path = format!("/v1/kv/{prefix}/{name}-{number}");
        let put = client.put(&path, &[b'x'; 100]);
        put.map_err(Failure::system("a key of others can't be put"))?;
    }
    Ok(())
}
