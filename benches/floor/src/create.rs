//! Creates objects, many at once.

use crate::http::{ApiServer, Connection};
use crate::objects::{Object, Shape};
use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// The cost of creating.
#[derive(Debug, Serialize)]
pub(crate) struct Created {
    pub(crate) seconds: f64,
    pub(crate) requests: usize,
    pub(crate) bytes: u64,
}

/// Creates `count` objects. Their namespaces are made before the clock starts.
pub(crate) fn create(server: &ApiServer, shape: &Shape, count: usize, connections: usize) -> Result<Created> {
    let mut opened = open(server, connections)?;
    let Some(first) = opened.first_mut() else { bail!("no connections") };
    for namespace in shape.namespaces() {
        send(first, &namespace)?;
    }
    create_each(opened, count, |index| shape.object(index))
}

/// Creates the objects of a file, each of which is a line of JSON, at one path.
pub(crate) fn create_lines(server: &ApiServer, path: &str, file: &Path, connections: usize) -> Result<Created> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let lines: Vec<&str> = text.lines().collect();
    let object = |index: usize| Object {
        path: path.to_owned(),
        body: lines.get(index).map_or_else(String::new, |line| (*line).to_owned()),
    };
    create_each(open(server, connections)?, lines.len(), object)
}

fn open(server: &ApiServer, connections: usize) -> Result<Vec<Connection<'_>>> {
    (0..connections).map(|_| Connection::open(server)).collect()
}

/// Creates the objects with the numbers below `count`, over all connections.
fn create_each(opened: Vec<Connection<'_>>, count: usize, object: impl Fn(usize) -> Object + Sync) -> Result<Created> {
    let next = AtomicUsize::new(0);
    let work = |mut connection: Connection<'_>| -> Result<(usize, u64)> {
        let (mut requests, mut bytes) = (0, 0);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return Ok((requests, bytes));
            }
            let object = object(index);
            if let Err(e) = send(&mut connection, &object) {
                next.store(count, Ordering::Relaxed);
                return Err(e);
            }
            requests += 1;
            bytes += object.body.len() as u64;
        }
    };
    let began = Instant::now();
    let (requests, bytes) = thread::scope(|scope| {
        let workers: Vec<_> = opened.into_iter().map(|connection| scope.spawn(|| work(connection))).collect();
        let mut sum = (0, 0);
        for worker in workers {
            let (requests, bytes) = worker.join().map_err(|_| anyhow!("a thread panicked"))??;
            sum = (sum.0 + requests, sum.1 + bytes);
        }
        Ok::<_, anyhow::Error>(sum)
    })?;
    Ok(Created { seconds: began.elapsed().as_secs_f64(), requests, bytes })
}

pub(crate) fn send(connection: &mut Connection<'_>, object: &Object) -> Result<()> {
    let mut answer = Vec::new();
    let status = connection.post(&object.path, &object.body, |piece| {
        if answer.len() < 1024 {
            answer.extend_from_slice(piece);
        }
    })?;
    if status != 201 {
        bail!("POST {}: {status} {}", object.path, String::from_utf8_lossy(&answer));
    }
    Ok(())
}
