//! Restores from a bucket whose answers take 20 ms: an S3 server behind a proxy that waits before each request.
//!
//! A quarter of the data of the other rows: the server and the proxy take the same two cores as the programs.

use super::ground::{Ground, SourceData, kopia_restore, kopia_snapshot, kopia_snapshots, remove};
use crate::bench::compared::data::{Average, SmallFiles, make_file};
use crate::bench::compared::report::MeasuredRow;
use crate::bench::compared::sides::{Cost, Costs, Side};
use anyhow::{Context, Result};
use lifeboat_testbed::{Fault, Kopia, Nth, Proxy, Rule, S3Server};
use std::path::Path;
use std::time::Duration;

const BUCKET: &str = "far";
const DELAY: Duration = Duration::from_millis(20);
const SHARE: u64 = 4;

pub(super) fn file(ground: &Ground) -> Result<Vec<MeasuredRow>> {
    let source = ground.fresh("near")?;
    std::fs::create_dir(&source)?;
    let bytes = ground.bytes(SourceData::File) / SHARE;
    make_file(&source.join("data"), bytes)?;
    measure(ground, "far-restore-file", &source, bytes)
}

pub(super) fn tree(ground: &Ground) -> Result<Vec<MeasuredRow>> {
    let source = ground.fresh("near")?;
    let bytes = SmallFiles::new()?.make(&source, ground.files() / SHARE, Average::Mixed)?;
    measure(ground, "far-restore-tree", &source, bytes)
}

fn measure(ground: &Ground, name: &str, source: &Path, bytes: u64) -> Result<Vec<MeasuredRow>> {
    let server = S3Server::start()?;
    server.make_bucket(BUCKET)?;
    let kopia = ground.kopia()?;
    connect(&kopia, "create", &server, server.endpoint())?;
    kopia.run(&kopia_snapshot(source))?;
    remove(source)?;
    let proxy = Proxy::start(server.endpoint(), None)?;
    proxy.script(vec![Rule::new("*", "*", Nth::Every, Fault::Delay(DELAY))]);
    // Kopia takes minutes.
    let mut costs = Costs::in_turn(ground.rounds, &[Side::Lifeboat], |_| {
        let target = ground.fresh("restored")?;
        ground.settle()?;
        let url = format!("s3://{BUCKET}?region={}&endpoint={}", server.region(), proxy.url());
        let mut command = ground.lifeboat(&url, &["restore".as_ref(), "latest".as_ref(), target.as_os_str()]);
        command.env("AWS_ACCESS_KEY_ID", server.access_key()).env("AWS_SECRET_ACCESS_KEY", server.secret_key());
        let cost = Cost::of(&command)?.0;
        remove(&target)?;
        Ok(cost)
    })?;
    let target = ground.fresh("restored")?;
    let kopia = ground.kopia()?;
    connect(&kopia, "connect", &server, proxy.url())?;
    let snapshot = kopia_snapshots(&kopia)?.pop().context("kopia finds no snapshot")?;
    ground.settle()?;
    let cost = Cost::of(&kopia.command(&kopia_restore(&snapshot, &target)))?.0;
    costs.add(Side::Kopia, cost.and(ground.synced(&target)?));
    remove(&target)?;
    Ok(vec![MeasuredRow::new(name, bytes, costs).beside(Side::Kopia, 0.1)])
}

/// Makes the repository in the bucket, or connects to it, through this URL.
fn connect(kopia: &Kopia, action: &str, server: &S3Server, url: &str) -> Result<()> {
    let flags = [
        format!("--bucket={BUCKET}"),
        format!("--region={}", server.region()),
        format!("--endpoint={}", url.trim_start_matches("http://")),
        format!("--access-key={}", server.access_key()),
        format!("--secret-access-key={}", server.secret_key()),
    ];
    let mut args = vec!["repository", action, "s3", "--disable-tls"];
    args.extend(["--override-username=user", "--override-hostname=host"]);
    args.extend(flags.iter().map(String::as_str));
    kopia.run(&args).map(drop)
}
