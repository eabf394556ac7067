//! Runs a sandbox until the end of standard input and prints its kubeconfig:
//! `cargo run -p lifeboat-sandbox --example sandbox > kubeconfig`.
#![allow(clippy::print_stdout, reason = "it talks to the developer")]

use lifeboat_sandbox::{Sandbox, SandboxOptions};
use std::error::Error;
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let sandbox = Sandbox::start(SandboxOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        token: uuid::Uuid::new_v4().to_string(),
        now: Arc::new(jiff::Timestamp::now),
        new_uid: Arc::new(|| uuid::Uuid::new_v4().to_string()),
        version: "v1.34.4".to_owned(),
        name: "sandbox".to_owned(),
        namespace: "default".to_owned(),
    })
    .await?;
    println!("{}", sandbox.kubeconfig());
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    sandbox.shutdown().await;
    Ok(())
}
