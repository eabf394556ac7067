//! How much memory objects take that pass through: a small constant, however large they are.

use crate::bed::Bed;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use lifeboat_bucket::{Body, PutOptions};
use std::process::Command;

/// Says that this process has no other work than to measure. Its value is the size of the object in MiB.
const ALONE: &str = "FIXTURE_MEASURES";
/// What the whole process may take, in KiB: its code is about half of that.
const MOST: u64 = 64 << 10;

#[test]
fn a_large_object_passes_through_in_a_bounded_part_of_memory() {
    if std::env::var_os(ALONE).is_some() {
        return;
    }
    // Other tests take memory too, so this is another process.
    let size = std::env::var("LIFEBOAT_OBJECT_MIB").unwrap_or_else(|_| "256".to_owned());
    let mut measuring = Command::new(std::env::current_exe().unwrap());
    measuring.args(["--exact", "memory::measures", "--nocapture"]).env(ALONE, size);
    let output = measuring.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// The most memory that this process had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn measures() {
    let Some(size) = std::env::var(ALONE).ok().and_then(|size| size.parse::<u64>().ok()) else { return };
    let bed = Bed::new().with("p", "ObjectStore=a.io/a", "");
    let host = bed.discover().await.unwrap();
    let root = bed.path("objects").display().to_string();
    let config = [("bucket", "b"), ("root", &*root)].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let store = host.object_store(&"a.io/a".parse().unwrap(), config.into()).await.unwrap();
    let before = peak();
    // Pieces as an archive has them.
    let piece = || Ok(Bytes::from(vec![7; 1 << 20]));
    let begun = std::time::Instant::now();
    let body = futures::stream::iter(0..size).map(move |_| piece());
    store.put("large", Body::Stream(body.boxed()), PutOptions::default()).await.unwrap();
    let (put, after_put) = (begun.elapsed(), peak());
    let begun = std::time::Instant::now();
    let mut stream = store.get("large", None).await.unwrap();
    let mut read = 0;
    while let Some(piece) = stream.try_next().await.unwrap() {
        read += piece.len() as u64;
    }
    let (get, after_get) = (begun.elapsed(), peak());
    println!("{size} MiB: put {put:.1?}, get {get:.1?}, peak in KiB {before}, {after_put}, {after_get}");
    assert_eq!(read, size << 20);
    assert!(after_get < MOST, "{after_get} KiB");
    host.shut_down().await;
}
