//! `dev`: a Consul in memory on a port, to try things on.

use std::net::SocketAddr;

use clap::Args;
use tokio::net::TcpListener;
use transport_mock::MockConsul;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::print;

/// Serve a Consul in memory until interrupted
#[derive(Args, Clone, Debug)]
pub(crate) struct DevOptions {
    /// Where to listen; with port 0 the system chooses a port
    #[arg(long, default_value = "127.0.0.1:8500", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// A fault, such as `latency?ms=20`; `curl ADDRESS/mock` lists all faults
    #[arg(long, value_name = "ORDER")]
    fault: Vec<String>,
    /// The seed of random events and of session ids
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub(crate) fn dev(options: &DevOptions) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::system("the runtime can't be started"))?;
    runtime.block_on(serve(options))
}

async fn serve(options: &DevOptions) -> Result<Exit, Failure> {
    let cannot = || Failure::system("the address can't be listened at");
    let world = MockConsul::on_tokio(options.seed);
    world.set_patience(std::time::Duration::MAX);
    for order in &options.fault {
        world
            .order(order)
            .map_err(|error| Failure::usage(format!("--fault {order}: {error}")))?;
    }
    let listener = TcpListener::bind(options.listen).await.map_err(cannot())?;
    let address = listener.local_addr().map_err(cannot())?;
    print(&format!("CONSUL_HTTP_ADDR=http://{address}\n"))?;
    // The host of faults that name no other.
    world.serve(&listener, "1").await;
    Ok(Exit::SUCCESS)
}
