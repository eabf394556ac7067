//! Errors of all commands: refusals of a line, and an output that nobody reads.

use crate::command::Lifeboat;
use lifeboat_install::{InstallError, RemovalError};
use lifeboat_terminal::output::errors;

#[test]
fn an_installation_that_nobody_reads_about_is_no_error_to_read_about() {
    let closed = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    for error in [
        anyhow::Error::new(InstallError::Tell(closed())).context("the installation is not complete"),
        anyhow::Error::new(RemovalError::Tell(closed())),
    ] {
        assert!(errors::is_closed_output(&error), "{error:?}");
    }
}

#[test]
fn refusals_have_veleros_words() {
    let refused = |args: &str| {
        let words = std::iter::once("velero").chain(args.split(' '));
        errors::refusal(&Lifeboat::grammar("velero").try_get_matches_from(words).unwrap_err(), "velero")
    };
    assert_eq!(
        refused("frobnicate"),
        "Error: unknown command \"frobnicate\" for \"velero\"\nRun 'velero --help' for usage.\n\
         An error occurred: unknown command \"frobnicate\" for \"velero\"\n"
    );
    assert_eq!(
        refused("-n x backup frob --wait"),
        "Error: unknown command \"frob\" for \"velero backup\"\nRun 'velero backup --help' for usage.\n\
         An error occurred: unknown command \"frob\" for \"velero backup\"\n"
    );
    assert_eq!(refused("help backup frob"), refused("backup frob"));
    assert_eq!(
        refused("backups"),
        "Error: unknown command \"backups\" for \"velero\"\n\nDid you mean this?\n\tbackup\n\n\
         Run 'velero --help' for usage.\nAn error occurred: unknown command \"backups\" for \"velero\"\n"
    );
    let (text, word) = (refused("backup create y --nope"), "unknown flag: --nope\n");
    assert!(text.starts_with(&format!("Error: {word}")), "{text}");
    assert!(text.contains("Usage: velero backup create"), "{text}");
    assert!(text.ends_with(&format!("An error occurred: {word}")), "{text}");
    let text = refused("backup delete res2 -o json");
    assert!(text.starts_with("Error: unknown shorthand flag: 'o' in -o\n"), "{text}");
    let text = refused("backup create --ttl tomorrow");
    assert!(text.starts_with("Error: invalid value 'tomorrow' for '--ttl <DURATION>': "), "{text}");
}
