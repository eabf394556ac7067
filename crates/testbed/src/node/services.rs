//! The one service that pods have: the API server.

use super::place::run;
use crate::ControlPlane;
use anyhow::{Context, Result};
use std::process::Command;

/// The address of the service `kubernetes`, the first of the range that the API server has for services. Its certificate names it.
const SERVICE: &str = "10.96.0.1";
/// The setting that lets connections from outside, such as those of pods, be led to the loopback interface.
const TO_LOOPBACK: &str = "/proc/sys/net/ipv4/conf/all/route_localnet";

/// Leads the address of the API server's service, from pods and from the node itself, to the API server on the loopback interface.
pub(super) fn serve_api(plane: &ControlPlane) -> Result<()> {
    let (_, target) = plane.url().split_once("://").context("the URL of the API server")?;
    run(Command::new("ip").args(["addr", "add", &format!("{SERVICE}/32"), "dev", "tb0"]))?;
    std::fs::write(TO_LOOPBACK, "1").with_context(|| format!("write {TO_LOOPBACK}"))?;
    for chain in ["PREROUTING", "OUTPUT"] {
        let from = ["-t", "nat", "-A", chain, "-d", SERVICE, "-p", "tcp", "--dport", "443"];
        run(Command::new("iptables").args(from).args(["-j", "DNAT", "--to-destination", target]))?;
    }
    Ok(())
}
