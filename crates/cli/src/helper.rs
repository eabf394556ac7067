//! The other programs of Velero's image. In the image they are names of this one.

use anyhow::{Context, Result, bail};
use lifeboat_serve::restore_helper::{RESTORES, wait_for_volumes};
use lifeboat_terminal::output::errors::report;
use lifeboat_terminal::process::signals::terminated;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// A program of the image, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Helper {
    /// `velero-helper`: does nothing, in containers that only hold volumes.
    Pause,
    /// `velero-restore-helper`: holds a restored pod back until its volumes are filled.
    RestoreWait,
}

/// Runs the program that this process was called as, when it is one of the others.
pub(crate) fn run() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let helper = named(&args.next()?)?;
    let args: Vec<OsString> = args.collect();
    if helper == Helper::RestoreWait && args.len() != 1 {
        // compat: the words of Velero's helper. Where nobody reads them the exit code says as much.
        let _ = writeln!(std::io::stderr(), "ERROR: exactly one argument must be provided, the restore's UID");
        return Some(ExitCode::FAILURE);
    }
    Some(match helper.run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => report(&e),
    })
}

fn named(program: &OsString) -> Option<Helper> {
    match Path::new(program).file_name()?.to_str()? {
        "velero-helper" => Some(Helper::Pause),
        "velero-restore-helper" => Some(Helper::RestoreWait),
        _ => None,
    }
}

impl Helper {
    fn run(self, args: &[OsString]) -> Result<()> {
        match self {
            Self::Pause => {
                match args {
                    [mode] if mode == "pause" => {}
                    [] => bail!("velero-helper needs a mode: pause"),
                    other => bail!("velero-helper knows no mode but pause: {other:?}"),
                }
                // The first process of a container is only ended by signals that it takes.
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.context("start the runtime")?;
                runtime.block_on(async {
                    terminated()?.await;
                    Ok(())
                })
            }
            Self::RestoreWait => {
                let [uid] = args else {
                    bail!("exactly one argument must be provided, the restore's UID");
                };
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.context("start the runtime")?;
                runtime.block_on(wait_for_volumes(Path::new(RESTORES), &uid.to_string_lossy()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_goes_by_its_name() {
        for (program, expected) in [
            ("/velero-helper", Some(Helper::Pause)),
            ("velero-helper", Some(Helper::Pause)),
            ("/velero-restore-helper", Some(Helper::RestoreWait)),
            ("/velero", None),
            ("lifeboat", None),
            ("/", None),
        ] {
            assert_eq!(named(&program.into()), expected, "{program}");
        }
    }
}
