//! Runs a control plane until Enter (or the end of standard input): `cargo run -p lifeboat-testbed --example control-plane`.
#![allow(clippy::print_stdout, reason = "it talks to the developer")]

fn main() -> anyhow::Result<()> {
    let plane = lifeboat_testbed::ControlPlane::start()?;
    println!("export KUBECONFIG={}", plane.kubeconfig().display());
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
