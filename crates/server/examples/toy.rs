//! A server on a toy backend with fixed statements: `cargo run -p carnet-server --example toy`.
//!
//! `toy [ADDRESS [PASSWORD_FILE]]` prints its listen addresses and serves until the end of its
//! standard input.

use std::io::Read;
use std::sync::Arc;

use carnet_base::{Error, Result, SystemClock};
use carnet_server::{Authenticator, Config, Server, Users};

#[path = "../tests/all/support/toy.rs"]
mod toy;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".into());
    let address = address.parse().map_err(|e| Error::invalid(format!("{address}: {e}")))?;
    let authenticator = match arguments.next() {
        Some(path) => {
            let text = std::fs::read_to_string(&path)
                .map_err(|e| Error::unavailable(format!("cannot read {path}")).with_source(e))?;
            Some(Authenticator::of_users(Arc::new(Users::parse(&text)?)))
        }
        None => None,
    };
    let http = Some(([127, 0, 0, 1], 0).into());
    let config = Config { http, ..Config::new(address) };
    let clock = Arc::new(SystemClock);
    let server = Server::bind(config, toy::Toy::default(), authenticator, clock).await?;
    println!("cql {}", server.local_addr()?);
    if let Some(http) = server.http_addr()? {
        println!("http {http}");
    }
    let input_ends = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    server
        .run(async {
            let _ = input_ends.await;
        })
        .await;
    Ok(())
}
