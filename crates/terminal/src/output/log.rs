//! Log on standard error, controlled by the flags of klog, which every command of Velero has.

use crate::flags::Optional;
use crate::output::sentence::Sentences;
use crate::process::traces::Traces;
use anyhow::{Context, Result};
use clap::Args;
use lifeboat_operation::TRACE_TARGET;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer};

/// The variable with a filter of `tracing`.
const FILTER: &str = "LIFEBOAT_LOG";

/// klog's flags. All but the level are hidden from the help of a command: `help --all` shows them.
#[derive(Clone, Debug, Args)]
pub struct LogArgs {
    /// Verbosity of the log: 0 warnings and errors, 1 steps, 3 details, 4 and more everything. The server has
    /// --log-level instead; `help --all` lists the other flags for this
    #[arg(long = "v", short = 'v', global = true, default_value_t = 0, value_name = "LEVEL")]
    verbosity: i32,
    /// When false, what is told also goes to the file of --log_file
    #[arg(long = "logtostderr", global = true, hide = true, default_value_t = true, action = clap::ArgAction::Set)]
    to_stderr: bool,
    /// A file to add what is told to, with --logtostderr=false
    #[arg(long = "log_file", global = true, hide = true, default_value = "", value_name = "FILE")]
    file: Optional<PathBuf>,
    /// With --logtostderr=false, tell on standard error also what is below --stderrthreshold
    #[arg(long = "alsologtostderr", global = true, hide = true)]
    also_to_stderr: bool,
    /// The least important lines on standard error: INFO, WARNING, ERROR, FATAL, or their numbers from 0
    #[arg(long = "stderrthreshold", global = true, hide = true, value_parser = severity, default_value = "INFO", value_name = "SEVERITY")]
    threshold: LevelFilter,
    /// Ignore --stderrthreshold unless --logtostderr=false
    #[arg(long = "legacy_stderr_threshold_behavior", global = true, hide = true)]
    legacy_threshold: bool,
    /// Leave out time, level and place of each line
    #[arg(long = "skip_headers", global = true, hide = true)]
    skip_headers: bool,
    #[command(flatten)]
    _ignored: IgnoredLogArgs,
}

/// Flags that are accepted and ignored, because Velero accepts them.
#[derive(Clone, Debug, Args)]
struct IgnoredLogArgs {
    /// No effect: name a file by --log_file
    #[arg(long = "log_dir", global = true, hide = true, default_value = "", value_name = "DIRECTORY")]
    _dir: Optional<PathBuf>,
    /// No effect: files of logs are not bounded
    #[arg(long = "log_file_max_size", global = true, hide = true, default_value_t = 1800, value_name = "MB")]
    _file_max_size: u64,
    /// No effect: places in Velero's source are none here
    #[arg(long = "log_backtrace_at", global = true, hide = true, default_value = "", value_name = "FILE:LINE")]
    _backtrace_at: String,
    /// No effect: places in Velero's source are none here
    #[arg(long = "vmodule", global = true, hide = true, default_value = "", value_name = "PATTERN=LEVEL,…")]
    _modules: String,
    /// No effect: lines name no files
    #[arg(long = "add_dir_header", global = true, hide = true)]
    _add_dir_header: bool,
    /// No effect: there is one file for all severities
    #[arg(long = "one_output", global = true, hide = true)]
    _one_output: bool,
    /// No effect: files of logs have no header
    #[arg(long = "skip_log_headers", global = true, hide = true)]
    _skip_log_headers: bool,
}

impl LogArgs {
    /// Starts telling, and sending what traces take; `LIFEBOAT_LOG` overrides the level with a filter of `tracing`.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn start(&self, traces: &Traces) -> Result<()> {
        let lines = tracing_subscriber::fmt::layer().with_writer(self.writer()?);
        let spans = tracing_subscriber::registry().with(traces.layer());
        let _ = if self.is_for_people() {
            let lines = lines.event_format(Sentences);
            tracing::subscriber::set_global_default(spans.with(lines.with_filter(self.filter())))
        } else if self.skip_headers {
            let lines = lines.without_time().with_level(false).with_target(false);
            tracing::subscriber::set_global_default(spans.with(lines.with_filter(self.filter())))
        } else {
            tracing::subscriber::set_global_default(spans.with(lines.with_filter(self.filter())))
        };
        Ok(())
    }

    /// Returns true if nobody has asked for a log: then messages are formatted for people.
    fn is_for_people(&self) -> bool {
        self.verbosity <= 0 && self.to_stderr && std::env::var_os(FILTER).is_none()
    }

    fn filter(&self) -> EnvFilter {
        let filter = EnvFilter::try_from_env(FILTER).unwrap_or_else(|_| EnvFilter::new(self.level()));
        let filter = without_spans(filter);
        // The journal's own warnings and errors are printed with the result; without -v they would stand there twice.
        match format!("{}=off", lifeboat_operation::LOG_TARGET).parse() {
            Ok(directive) if self.verbosity <= 0 => filter.add_directive(directive),
            _ => filter,
        }
    }

    /// Libraries are heard only when details are asked for: what they warn of we try again, or report in our own words.
    fn level(&self) -> &'static str {
        match self.verbosity {
            ..=0 => "off,lifeboat=warn",
            1 | 2 => "off,lifeboat=info",
            3 => "debug",
            _ => "trace",
        }
    }

    fn writer(&self) -> Result<BoxMakeWriter> {
        let least = self.least_on_stderr();
        let stderr = io::stderr.with_filter(move |line| *line.level() <= least);
        let Some(path) = self.file.as_ref().filter(|_| !self.to_stderr) else { return Ok(BoxMakeWriter::new(stderr)) };
        let file = File::options().append(true).create(true).open(path);
        let file = file.with_context(|| format!("open --log_file {}", path.display()))?;
        Ok(BoxMakeWriter::new(stderr.and(Arc::new(file))))
    }

    /// The least important lines that go to standard error.
    fn least_on_stderr(&self) -> LevelFilter {
        let all = if self.to_stderr { self.legacy_threshold } else { self.also_to_stderr };
        if all { LevelFilter::TRACE } else { self.threshold }
    }
}

/// Removes the spans of operations from the lines of the log: each line names its subject itself.
pub fn without_spans(filter: EnvFilter) -> EnvFilter {
    match format!("{TRACE_TARGET}=off").parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    }
}

/// Parses a severity of klog. It has none below INFO: messages of a higher verbosity are INFO, too.
fn severity(text: &str) -> Result<LevelFilter, String> {
    match text.to_ascii_uppercase().as_str() {
        "INFO" | "0" => Ok(LevelFilter::TRACE),
        "WARNING" | "1" => Ok(LevelFilter::WARN),
        "ERROR" | "2" => Ok(LevelFilter::ERROR),
        "FATAL" | "3" => Ok(LevelFilter::OFF),
        _ => Err("it is none of INFO, WARNING, ERROR and FATAL".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_line::TestLine;

    fn of(flags: &str) -> LogArgs {
        TestLine::parsed(&format!("version {flags}")).globals.log
    }

    #[test]
    fn the_level_is_how_much_is_told() {
        for (flags, expected) in [
            ("", "off,lifeboat=warn"),
            ("-v 0", "off,lifeboat=warn"),
            ("-v1", "off,lifeboat=info"),
            ("--v=3", "debug"),
            ("-v=9", "trace"),
            ("-v -1", "off,lifeboat=warn"),
        ] {
            assert_eq!(of(flags).level(), expected, "{flags}");
        }
    }

    #[test]
    fn libraries_are_silent_until_details_are_asked_for() {
        use jiff::Timestamp;
        use lifeboat_object::ResultScope;
        use lifeboat_operation::Journal;
        let told = |flags: &str| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("log");
            let args =
                of(&format!("{flags} --logtostderr=false --stderrthreshold=FATAL --log_file {}", file.display()));
            let lines = tracing_subscriber::fmt().with_env_filter(args.filter()).with_writer(args.writer().unwrap());
            let lines = lines.without_time().with_level(false).with_target(false).finish();
            tracing::subscriber::with_default(lines, || {
                tracing::warn!(target: "kube_client::client::tls", "Server cert bypassed");
                tracing::warn!(target: "lifeboat_cluster::connect", "ours");
                tracing::info!(target: "lifeboat_store", "a step");
                let journal = Journal::new(Arc::new(|| Timestamp::UNIX_EPOCH), "backup=velero/b", folder.path());
                journal.warn(&ResultScope::Velero, "of a backup");
            });
            std::fs::read_to_string(&file).unwrap()
        };
        assert_eq!(told(""), "ours\n", "what the journal says is printed with the result");
        let subject = " subject=\"backup=velero/b\"\n";
        assert_eq!(told("-v 1"), format!("ours\na step\nof a backup{subject}"));
        assert_eq!(told("-v 3"), format!("Server cert bypassed\nours\na step\nof a backup{subject}"));
    }

    #[test]
    fn a_threshold_holds_unless_klog_would_ignore_it() {
        for (flags, expected) in [
            ("", LevelFilter::TRACE),
            ("--stderrthreshold=error", LevelFilter::ERROR),
            ("--stderrthreshold 1", LevelFilter::WARN),
            ("--stderrthreshold FATAL --alsologtostderr", LevelFilter::OFF),
            ("--stderrthreshold ERROR --legacy_stderr_threshold_behavior", LevelFilter::TRACE),
            ("--stderrthreshold ERROR --logtostderr=false", LevelFilter::ERROR),
            ("--stderrthreshold ERROR --logtostderr=false --legacy_stderr_threshold_behavior", LevelFilter::ERROR),
            ("--stderrthreshold ERROR --logtostderr=f --alsologtostderr", LevelFilter::TRACE),
        ] {
            assert_eq!(of(flags).least_on_stderr(), expected, "{flags}");
        }
    }

    #[test]
    fn lines_go_to_the_file_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        let told = |flags: &str| {
            let args = of(&format!("{flags} --log_file {}", file.display()));
            let lines = tracing_subscriber::fmt().with_writer(args.writer().unwrap());
            let lines = lines.without_time().with_level(false).with_target(false).finish();
            tracing::subscriber::with_default(lines, || tracing::info!("a step"));
            std::fs::read_to_string(&file).unwrap_or_default()
        };
        assert_eq!(told("--stderrthreshold FATAL"), "");
        assert_eq!(told("--stderrthreshold FATAL --logtostderr=false"), "a step\n");
        assert_eq!(told("--stderrthreshold FATAL --logtostderr=false"), "a step\na step\n");
        let nowhere = of("--logtostderr=false --log_file /nowhere/log").writer().err().unwrap();
        assert_eq!(nowhere.to_string(), "open --log_file /nowhere/log");
    }

    #[test]
    fn what_klog_takes_is_taken() {
        let all = "--add_dir_header --alsologtostderr --legacy_stderr_threshold_behavior=false --log_backtrace_at x.go:1 \
                   --log_dir /tmp --log_file x --log_file_max_size 0 --logtostderr=true --one_output=1 --skip_headers=T \
                   --skip_log_headers --stderrthreshold=INFO -v 0 --vmodule a=1,b=2";
        let _ = of(&all.split_whitespace().collect::<Vec<_>>().join(" "));
    }
}
