//! Dry runs of this machine: an engine makes the preview, which is printed as it comes.

use anyhow::Result;
use lifeboat_restore::{Env, Request};
use lifeboat_terminal::flags::dry_run::PlanFiles;
use lifeboat_terminal::output::Output;
use lifeboat_terminal::output::progress::watched;
use lifeboat_view::preview::{RestorePrinter, ShownParts, print_backup};
use std::process::ExitCode;
use tokio::sync::mpsc;

/// Objects of a restore waiting to be printed.
const WAITING: usize = 64;

/// Previews a restore and prints what it would do, object by object as that is found out. Exit code 3 when something could
/// not be restored, or the plan is another one than that of `files`, or than the one that the restore is pinned to.
///
/// # Errors
/// Returns the error that keeps the restore from being previewed, and fails when standard output is closed, or a file
/// cannot be read or written.
pub(crate) async fn print_restore(
    request: &Request,
    env: &Env,
    show: ShownParts,
    files: &PlanFiles,
) -> Result<ExitCode> {
    let mut printer = RestorePrinter::new(show, files, &request.restore.spec)?;
    let (sender, mut items) = mpsc::channel(WAITING);
    let printing = async {
        while let Some(item) = items.recv().await {
            printer.item(item)?;
        }
        anyhow::Ok(())
    };
    let operation = async { tokio::join!(lifeboat_restore::preview(request, env, sender), printing) };
    let (end, printed) = Box::pin(watched("dry run", &env.operation.progress, &env.operation.cancel, operation)).await;
    printed?;
    printer.end(&end?)
}

/// Previews a backup and prints what it would hold.
///
/// # Errors
/// Returns the error that keeps the backup from being previewed, and fails when standard output is closed.
pub(crate) async fn print_backup_preview(
    request: &lifeboat_backup::Request,
    env: &lifeboat_backup::Env,
    output: Option<Output>,
) -> Result<ExitCode> {
    let operation = lifeboat_backup::preview(request, env);
    let preview = watched("dry run", &env.operation.progress, &env.operation.cancel, operation).await?;
    print_backup(&preview, output)
}
