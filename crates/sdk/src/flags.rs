//! The command line (velero: pkg/plugin/clientmgmt/process/client_builder.go).

use std::ffi::OsString;
use tracing::level_filters::LevelFilter;

/// The spellings of levels that Velero's flag knows, from the most lines to the fewest.
const LEVELS: [(&str, LevelFilter); 7] = [
    ("trace", LevelFilter::TRACE),
    ("debug", LevelFilter::DEBUG),
    ("info", LevelFilter::INFO),
    ("warning", LevelFilter::WARN),
    ("error", LevelFilter::ERROR),
    // No line of a plugin is more than an error.
    ("fatal", LevelFilter::OFF),
    ("panic", LevelFilter::OFF),
];

/// Reasons for which the command line is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidFlag {
    #[error("flag needs an argument: --log-level")]
    NoLevel,
    #[error("invalid argument {0:?} for \"--log-level\" flag: it must be one of {levels}", levels = levels())]
    Level(String),
}

fn levels() -> String {
    LEVELS.map(|(name, _)| name).join(", ")
}

/// The level of `--log-level`, the last one if there are several; `info` without. A server hands all of its own flags to its plugins,
/// so every other flag is passed over as pflag passes over those that it does not know: with the argument behind it, unless its
/// value stands in it or the argument begins with a dash itself.
pub(crate) fn log_level(arguments: impl IntoIterator<Item = OsString>) -> Result<LevelFilter, InvalidFlag> {
    let arguments: Vec<String> = arguments.into_iter().map(|a| a.to_string_lossy().into_owned()).collect();
    let mut level = LevelFilter::INFO;
    let mut rest = arguments.as_slice();
    while let Some((argument, behind)) = rest.split_first() {
        rest = behind;
        let is_value_behind = if argument == "--" {
            return Ok(level);
        } else if argument == "--log-level" {
            let (value, behind) = rest.split_first().ok_or(InvalidFlag::NoLevel)?;
            level = level_of(value)?;
            rest = behind;
            false
        } else if let Some(flag) = argument.strip_prefix("--") {
            if let Some(value) = flag.strip_prefix("log-level=") {
                level = level_of(value)?;
            }
            !flag.contains('=')
        } else if let Some(letters) = argument.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            !has_value(letters)
        } else {
            false
        };
        if is_value_behind && rest.first().is_some_and(|next| !next.starts_with('-')) {
            rest = &rest[1..];
        }
    }
    Ok(level)
}

/// Returns true if a short flag has its value in itself: `-x=value`, also after other letters.
fn has_value(letters: &str) -> bool {
    letters.bytes().enumerate().any(|(at, b)| at > 0 && b == b'=' && at + 1 < letters.len())
}

fn level_of(value: &str) -> Result<LevelFilter, InvalidFlag> {
    let known = LEVELS.iter().find(|(name, _)| *name == value);
    known.map(|(_, level)| *level).ok_or_else(|| InvalidFlag::Level(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(line: &str) -> Result<LevelFilter, InvalidFlag> {
        log_level(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_level_is_found_among_all_flags_of_any_server() {
        for (line, expected) in [
            ("", LevelFilter::INFO),
            ("--log-level debug", LevelFilter::DEBUG),
            ("--log-level=trace", LevelFilter::TRACE),
            ("--log-level debug --log-level warning", LevelFilter::WARN),
            ("--log-level error --features EnableCSI,EnableAPIGroupVersions", LevelFilter::ERROR),
            ("--features=EnableCSI --uploader-type=kopia --log-level=debug", LevelFilter::DEBUG),
            ("--uploader-type kopia --restore-only --log-level debug --client-qps -1", LevelFilter::DEBUG),
            ("--client-qps -1 --log-level fatal", LevelFilter::OFF),
            ("word --log-level panic another", LevelFilter::OFF),
            ("--features --log-level=debug", LevelFilter::DEBUG),
            ("-v --log-level debug", LevelFilter::DEBUG),
            ("-v 5 --log-level debug", LevelFilter::DEBUG),
            ("-v=5 --log-level debug", LevelFilter::DEBUG),
            ("- --log-level debug", LevelFilter::DEBUG),
            ("--help -h --= ---x -= --log-level debug", LevelFilter::DEBUG),
            ("-- --log-level debug", LevelFilter::INFO),
            ("--log-levels nonsense --log-format json", LevelFilter::INFO),
        ] {
            assert_eq!(level(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn what_stands_behind_an_unknown_flag_is_its_value() {
        // pflag drops the word behind `--x`, and behind letters none of which has its value with it.
        for (line, expected) in [
            ("--x log-level", LevelFilter::INFO),
            ("-ab word --log-level=debug", LevelFilter::DEBUG),
            ("-ab=c --log-level=debug", LevelFilter::DEBUG),
            ("-a= --log-level=debug", LevelFilter::DEBUG),
        ] {
            assert_eq!(level(line), Ok(expected), "{line}");
        }
        assert!(has_value("a=b") && has_value("ab=c") && !has_value("ab") && !has_value("a=") && !has_value("=a"));
    }

    #[test]
    fn a_level_that_is_none_is_refused() {
        assert_eq!(level("--x --log-level"), Err(InvalidFlag::NoLevel));
        let error = level("--log-level=warn").unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid argument \"warn\" for \"--log-level\" flag: it must be one of trace, debug, info, warning, error, fatal, panic"
        );
        assert_eq!(level("--log-level --features"), Err(InvalidFlag::Level("--features".to_owned())));
    }

    #[test]
    fn an_argument_that_is_no_text_is_passed_over() {
        use std::os::unix::ffi::OsStringExt;
        let arguments = [OsString::from_vec(vec![0xff, b'-']), "--log-level=error".into()];
        assert_eq!(log_level(arguments), Ok(LevelFilter::ERROR));
    }
}
