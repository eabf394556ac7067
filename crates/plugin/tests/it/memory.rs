//! Measures the memory for objects that pass through: a small constant, however large they are.

use crate::bed::Bed;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use lifeboat_bucket::{Body, PutOptions};
use std::io::Write;
use std::process::Command;

/// Says that this process has no other work than to measure. Its value is the size of the object in MiB.
const ALONE: &str = "FIXTURE_MEASURES";
/// Limit of our whole process, in KiB: its code is about half of that.
const MOST: u64 = 64 << 10;
/// Limit of a plugin that is made with Velero's library: without an object it takes nearly half of that.
const MOST_OF_PLUGIN: u64 = 80 << 10;

#[test]
fn an_object_passes_through_in_a_bounded_part_of_memory() {
    measured(100);
}

#[test]
#[ignore = "it takes its time: make test-long"]
fn long_an_object_of_a_gibibyte_passes_through_in_bounded_memory() {
    measured(1024);
}

/// Measures in another process: other tests take memory too.
fn measured(size: u64) {
    let mut measuring = Command::new(std::env::current_exe().unwrap());
    measuring.args(["--exact", "memory::measures", "--nocapture"]).env(ALONE, size.to_string());
    let output = measuring.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    std::io::stdout().write_all(text.as_bytes()).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("peak in KiB"), "nothing was measured: {text}");
}

/// The most memory that a process had, in KiB.
fn peak(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// No test, but where it is the only work of this process.
#[tokio::test]
async fn measures() {
    let Some(size) = std::env::var(ALONE).ok().and_then(|size| size.parse::<u64>().ok()) else { return };
    let bed = Bed::new().with_go("p", "ObjectStore=a.io/a", "");
    let host = bed.discover().await.unwrap();
    let root = bed.path("objects").display().to_string();
    let config = [("bucket", "b"), ("root", &*root)].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let store = host.object_store(&"a.io/a".parse().unwrap(), config.into()).await.unwrap();
    let plugin = bed.started().last().unwrap().to_string();
    let before = (peak("self"), peak(&plugin));
    // Pieces as an archive has them.
    let piece = || Ok(Bytes::from(vec![7; 1 << 20]));
    let begun = std::time::Instant::now();
    let body = futures::stream::iter(0..size).map(move |_| piece());
    store.put("large", Body::Stream(body.boxed()), PutOptions::default()).await.unwrap();
    let (put, after_put) = (begun.elapsed(), (peak("self"), peak(&plugin)));
    let begun = std::time::Instant::now();
    let mut stream = store.get("large", None).await.unwrap();
    let mut read = 0;
    while let Some(piece) = stream.try_next().await.unwrap() {
        read += piece.len() as u64;
    }
    let (get, after_get) = (begun.elapsed(), (peak("self"), peak(&plugin)));
    println!(
        "{size} MiB: put {put:.1?}, get {get:.1?}, peak in KiB of host and plugin {before:?}, {after_put:?}, {after_get:?}"
    );
    assert_eq!(read, size << 20);
    assert!(after_get.0 < MOST, "{} KiB", after_get.0);
    assert!(after_get.1 < MOST_OF_PLUGIN, "{} KiB of the plugin", after_get.1);
    host.shut_down().await;
}
