//! The changes of a command in the cluster, by the API server's own audit log.

use super::bed::pause;
use anyhow::{Context, Result, bail};
use lifeboat_testbed::ControlPlane;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The audit log from some moment on.
pub(crate) struct Audit {
    from: u64,
}

/// The requests of programs called `lifeboat`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    /// All requests, reads too.
    pub(crate) requests: usize,
    /// Writes that changed something: verb and path.
    pub(crate) done: Vec<String>,
    /// Writes that the server refused.
    pub(crate) refused: Vec<String>,
}

impl Audit {
    /// From now on.
    pub(crate) fn begin(plane: &ControlPlane) -> Result<Self> {
        Ok(Self { from: wait_for_mark(plane, 0)? })
    }

    /// The requests since then.
    pub(crate) fn end(self, plane: &ControlPlane) -> Result<Writes> {
        wait_for_mark(plane, self.from)?;
        writes(lines(&plane.audit_log(), self.from)?)
    }
}

/// Makes a request that is easy to find, and gives the place behind its line: the log is written a moment later than
/// the requests are answered, but in their order.
fn wait_for_mark(plane: &ControlPlane, from: u64) -> Result<u64> {
    static MARKS: AtomicUsize = AtomicUsize::new(0);
    // No mark is the beginning of another one.
    let mark = format!("/version?bench={}.", MARKS.fetch_add(1, Ordering::Relaxed));
    plane.kubectl().try_run(&["get", "--raw", &mark])?;
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        let mut place = from;
        for line in lines(&plane.audit_log(), from)? {
            let line = line?;
            place += line.len() as u64;
            if line.contains(&mark) {
                return Ok(place);
            }
        }
        pause();
    }
    bail!("the audit log does not show {mark}")
}

/// The lines that are written to their end, with their ends.
fn lines(log: &Path, from: u64) -> Result<impl Iterator<Item = std::io::Result<String>>> {
    let mut file = File::open(log).with_context(|| format!("open {}", log.display()))?;
    file.seek(SeekFrom::Start(from))?;
    let mut file = BufReader::new(file);
    Ok(std::iter::from_fn(move || {
        let mut line = String::new();
        match file.read_line(&mut line) {
            Ok(_) => line.ends_with('\n').then_some(Ok(line)),
            Err(e) => Some(Err(e)),
        }
    }))
}

fn writes(lines: impl Iterator<Item = std::io::Result<String>>) -> Result<Writes> {
    let mut out = Writes::default();
    for line in lines {
        let line = line?;
        let event: Value = serde_json::from_str(&line).with_context(|| format!("a line of the audit log: {line}"))?;
        if !event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("lifeboat/")) {
            continue;
        }
        out.requests += 1;
        let verb = event["verb"].as_str().unwrap_or_default();
        if ["get", "list", "watch"].contains(&verb) {
            continue;
        }
        let refused = event["responseStatus"]["code"].as_u64().is_some_and(|code| code >= 400);
        let path = event["requestURI"].as_str().unwrap_or_default().split('?').next().unwrap_or_default();
        let list = if refused { &mut out.refused } else { &mut out.done };
        list.push(format!("{verb} {path}"));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_writes_count_and_refused_ones_apart() {
        let event = |agent: &str, verb: &str, code: u64| {
            Ok(serde_json::json!({"userAgent": agent, "verb": verb, "requestURI": "/api/v1/namespaces", "responseStatus": {"code": code}}).to_string())
        };
        let log = [
            event("lifeboat/0.1.0 (linux/x86_64)", "get", 200),
            event("lifeboat/0.1.0 (linux/x86_64)", "list", 410),
            event("lifeboat/0.1.0 (linux/x86_64)", "create", 409),
            event("lifeboat/0.1.0 (linux/x86_64)", "create", 201),
            event("lifeboat/0.1.0 (linux/x86_64)", "patch", 200),
            event("floor", "create", 201),
            event("kube-controller-manager/v1.34.4", "update", 200),
        ];
        assert_eq!(
            writes(log.into_iter()).unwrap(),
            Writes {
                requests: 5,
                done: vec!["create /api/v1/namespaces".to_owned(), "patch /api/v1/namespaces".to_owned()],
                refused: vec!["create /api/v1/namespaces".to_owned()]
            }
        );
    }
}
