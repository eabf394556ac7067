//! Profiles of this process, at the paths of Go's `net/http/pprof`, which Velero serves
//! (velero: pkg/metrics/metrics.go): for `go tool pprof` and what else reads them.

use super::response::{HttpResponse, text};
use http::{StatusCode, Uri, header};
use lifeboat_archive::gzip;
use nix::sys::signal::{Signal, raise};
use pprof::protos::Message;
use pprof::{ProfilerGuard, ProfilerGuardBuilder};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Samples each second, as Go takes them.
const FREQUENCY: i32 = 100;
/// Seconds of a profile by default, as in Go.
const USUAL: u64 = 30;
/// The longest profile.
const LONGEST: u64 = 600;

/// Where all profiles are.
const ROOT: &str = "/debug/pprof/";

/// The page at the root, for people.
const CONTENTS: &str = "\
profile?seconds=N  where the processors' time goes, in the form of pprof: go tool pprof http://ADDRESS/debug/pprof/profile
cmdline            the program and its arguments
symbol             nothing to look up: profiles hold the names
";

/// Profiles, and how this process was started.
#[derive(Debug)]
pub(crate) struct Profiles {
    pub(crate) command_line: Vec<String>,
}

impl Profiles {
    /// Answers a GET. A profile ends when the client goes away.
    pub(crate) async fn answer(&self, uri: &Uri) -> HttpResponse {
        let Some(what) = uri.path().strip_prefix(ROOT) else {
            return text(StatusCode::NOT_FOUND, "there is nothing here: profiles are at /debug/pprof/\n");
        };
        match what {
            "" => text(StatusCode::OK, CONTENTS),
            "cmdline" => text(StatusCode::OK, self.command_line.join("\0")),
            // Go says 1 when names can be looked up.
            "symbol" => text(StatusCode::OK, "num_symbols: 0\n"),
            "profile" => match seconds(uri.query().unwrap_or_default()) {
                Ok(seconds) => profile(seconds).await,
                Err(why) => text(StatusCode::BAD_REQUEST, why),
            },
            "trace" => text(
                StatusCode::NOT_IMPLEMENTED,
                "this is the trace of Go's runtime, which this program does not have: start the server with --otlp-endpoint to \
                 get traces of its operations\n",
            ),
            "allocs" | "block" | "goroutine" | "heap" | "mutex" | "threadcreate" => text(
                StatusCode::NOT_IMPLEMENTED,
                format!(
                    "{what} is a profile of Go's runtime, which this program does not have: there is /debug/pprof/profile\n"
                ),
            ),
            _ => text(StatusCode::NOT_FOUND, format!("there is no profile {what:?}: /debug/pprof/ lists them\n")),
        }
    }
}

/// The requested seconds of a profile.
fn seconds(query: &str) -> Result<u64, String> {
    let given = query.split('&').find_map(|part| part.strip_prefix("seconds="));
    match given.unwrap_or_default() {
        "" => Ok(USUAL),
        text => match text.parse() {
            // Go takes what is not above 0 for nothing given.
            Ok(0) => Ok(USUAL),
            Ok(seconds) if seconds <= LONGEST => Ok(seconds),
            _ => Err(format!("seconds={text}: a profile lasts whole seconds, at most {LONGEST}\n")),
        },
    }
}

async fn profile(seconds: u64) -> HttpResponse {
    let guard = match begin() {
        Ok(guard) => guard,
        Err(pprof::Error::Running) => {
            return text(
                StatusCode::SERVICE_UNAVAILABLE,
                "another profile is being made: ask again when it has ended\n",
            );
        }
        Err(e) => return failed(&e.to_string()),
    };
    sleep(Duration::from_secs(seconds)).await;
    // To find the names takes a while.
    match spawn_blocking(move || packed(&guard)).await {
        Ok(Ok(profile)) => {
            let mut answer = text(StatusCode::OK, profile);
            let kind = header::HeaderValue::from_static("application/octet-stream");
            answer.headers_mut().insert(header::CONTENT_TYPE, kind);
            answer
        }
        Ok(Err(why)) => failed(&why),
        Err(e) => failed(&e.to_string()),
    }
}

/// Begins to take samples.
///
/// The first sample of a process makes the tables of the unwinder, in the handler of the signal, and that takes memory. In a thread
/// that was interrupted while it did so itself, it would wait for itself for ever, and everything that allocates behind it. So the first
/// one is taken here, by a signal of its own, where nothing is held.
fn begin() -> pprof::Result<ProfilerGuard<'static>> {
    static HAS_TABLES: Mutex<bool> = Mutex::new(false);
    let mut has_tables = HAS_TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    if !*has_tables {
        // Its own samples would come after a second of processor time, long after it is gone.
        let first = ProfilerGuardBuilder::default().frequency(1).build()?;
        raise(Signal::SIGPROF).map_err(|errno| io::Error::from_raw_os_error(errno as i32))?;
        drop(first);
        *has_tables = true;
    }
    drop(has_tables);
    ProfilerGuardBuilder::default().frequency(FREQUENCY).build()
}

/// The profile as pprof reads it: protobuf, packed by gzip.
fn packed(guard: &ProfilerGuard<'_>) -> Result<Vec<u8>, String> {
    let report = guard.report().build().map_err(|e| e.to_string())?;
    let profile = report.pprof().map_err(|e| e.to_string())?;
    let bytes = profile.write_to_bytes().map_err(|e| e.to_string())?;
    Ok(gzip::pack(&bytes))
}

fn failed(why: &str) -> HttpResponse {
    text(StatusCode::INTERNAL_SERVER_ERROR, format!("the profile cannot be made: {why}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    async fn ask(path: &str) -> (u16, Vec<u8>) {
        let profiles = Profiles { command_line: vec!["lifeboat".into(), "server".into()] };
        let answer = profiles.answer(&path.parse().unwrap()).await;
        let status = answer.status().as_u16();
        (status, answer.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test]
    async fn what_is_no_profile_is_said() {
        for (path, status, words) in [
            ("/debug/pprof/", 200, CONTENTS),
            ("/debug/pprof/cmdline", 200, "lifeboat\0server"),
            ("/debug/pprof/symbol", 200, "num_symbols: 0\n"),
            ("/debug/pprof/profile?seconds=x", 400, "seconds=x: a profile lasts whole seconds, at most 600\n"),
            ("/debug/pprof/profile?seconds=601", 400, "seconds=601: a profile lasts whole seconds, at most 600\n"),
            ("/debug/pprof/nothing", 404, "there is no profile \"nothing\": /debug/pprof/ lists them\n"),
            ("/metrics", 404, "there is nothing here: profiles are at /debug/pprof/\n"),
        ] {
            assert_eq!(ask(path).await, (status, words.as_bytes().to_vec()), "{path}");
        }
        for what in ["heap", "goroutine", "trace"] {
            assert_eq!(ask(&format!("/debug/pprof/{what}")).await.0, 501, "{what}");
        }
    }

    #[test]
    fn a_profile_lasts_as_long_as_it_is_wanted() {
        for (query, expected) in [("", 30), ("seconds=5", 5), ("debug=1&seconds=600", 600), ("seconds=0", 30)] {
            assert_eq!(seconds(query), Ok(expected), "{query}");
        }
    }

    /// A process has one profiler, so this is the one test that makes profiles.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_profile_is_one_of_pprof_and_there_is_one_at_a_time() {
        let (one, other) = tokio::join!(ask("/debug/pprof/profile?seconds=1"), async {
            tokio::task::yield_now().await;
            ask("/debug/pprof/profile?seconds=1").await
        });
        let mut statuses = [one.0, other.0];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 503]);
        let packed = if one.0 == 200 { one.1 } else { other.1 };
        let bytes = gzip::unpack(&packed, 1 << 24).unwrap();
        let profile = pprof::protos::Profile::parse_from_bytes(&bytes).unwrap();
        let names: Vec<&str> =
            profile.sample_type.iter().map(|kind| &*profile.string_table[kind.ty as usize]).collect();
        assert_eq!(names, ["samples", "cpu"]);
        // The next one can be made.
        assert_eq!(ask("/debug/pprof/profile?seconds=1").await.0, 200);
    }
}
