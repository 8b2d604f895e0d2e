//! Holds, and ends in a hurry: nothing is released.
#![allow(clippy::panic, reason = "that is one of its ends")]

use std::error::Error;
use std::time::Duration;

use clap::Parser as _;
use endings::{Hasty, How, On, What};
use semaphore_core::adapter::{Runtime, Transport};
use semaphore_core::{Election, Semaphore, blocking};
use transport_reqwest::ReqwestTransport;
use transport_ureq::{SmolTransport, UreqTransport};

fn main() -> Result<(), Box<dyn Error>> {
    let told = Hasty::parse();
    match told.on {
        On::Tokio => on_tokio(&told),
        On::TokioCurrent => on_one_thread_of_tokio(&told),
        On::Threads => on_threads(&told),
        On::Smol => smol::block_on(asynchronously(&told, SmolTransport::new(&told.url)?)),
    }
}

#[tokio::main]
async fn on_tokio(told: &Hasty) -> Result<(), Box<dyn Error>> {
    asynchronously(told, ReqwestTransport::new(&told.url)?).await
}

#[tokio::main(flavor = "current_thread")]
async fn on_one_thread_of_tokio(told: &Hasty) -> Result<(), Box<dyn Error>> {
    asynchronously(told, ReqwestTransport::new(&told.url)?).await
}

async fn asynchronously<B>(told: &Hasty, backend: B) -> Result<(), Box<dyn Error>>
where
    B: Transport + Runtime + 'static,
{
    let farewell = Duration::from_millis(told.farewell_ms);
    match told.what {
        What::Permit => {
            let semaphore = Semaphore::builder(&told.key, 1)
                .farewell(farewell)
                .connect(backend)?;
            let _permit = semaphore.acquire().await?;
            end(told.how)
        }
        What::Leadership => {
            let election = Election::builder(&told.key)
                .farewell(farewell)
                .connect(backend)?;
            let _leadership = election.campaign().await?;
            end(told.how)
        }
    }
}

fn on_threads(told: &Hasty) -> Result<(), Box<dyn Error>> {
    let farewell = Duration::from_millis(told.farewell_ms);
    let backend = UreqTransport::new(&told.url)?;
    match told.what {
        What::Permit => {
            let semaphore = blocking::Semaphore::builder(&told.key, 1)
                .farewell(farewell)
                .connect(backend)?;
            let _permit = semaphore.acquire()?;
            end(told.how)
        }
        What::Leadership => {
            let election = blocking::Election::builder(&told.key)
                .farewell(farewell)
                .connect(backend)?;
            let _leadership = election.campaign()?;
            end(told.how)
        }
    }
}

fn end(how: How) -> Result<(), Box<dyn Error>> {
    println!("held");
    match how {
        How::Error => Err("something else went wrong".into()),
        How::Panic => panic!("something else went wrong"),
    }
}
