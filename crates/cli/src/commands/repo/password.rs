//! `lifeboat repo password`.

use super::{Location, RepositoryArgs, kopia_clock, new_password, password};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::{KopiaError, PasswordChanged, PasswordRequest, Repository};
use lifeboat_repository::DEFAULT_PASSWORD;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::progress::shown;
use lifeboat_terminal::process::random::random;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Change the password of a kopia repository, without a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum PasswordCommand {
    /// Change the password: only two small blobs are written again
    Change(ChangeArgs),
}

impl PasswordCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Change(args) => Box::pin(args.run(globals)).await,
        }
    }
}

/// `lifeboat repo password change`.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// A file with the new password; asked for at the terminal when left out
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
    /// Change also the password of a repository of Velero, which cannot open it any more with the one in its Secret
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    repository: RepositoryArgs,
}

impl ChangeArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        self.repository.refuse_recovery()?;
        let old_file = self.repository.password_file()?;
        let old = password(old_file)?;
        if !self.force && is_of_velero(self.repository.location()?, &old) {
            bail!(
                "nothing was changed: the repository is one of Velero, which opens the repositories of all namespaces with the \
                 one password that its Secret velero-repo-credentials has, and could not open this one any more; with --force \
                 it is changed all the same"
            );
        }
        let store = self.repository.store(globals).await?;
        let described = store.describe();
        let new = match &self.new_password_file {
            Some(file) => password(file)?,
            None => new_password::ask()?,
        };
        if new.as_bytes() == old.as_bytes() {
            bail!("nothing was changed: the new password is the one that {} has already", old_file.display());
        }
        let request = PasswordRequest { old, new, random: random(), clock: kopia_clock() };
        let changing = Box::pin(Repository::change_password(store, &request));
        let interrupted = "the change was interrupted: one of the two passwords opens the repository; run the same command \
                           again to finish it";
        let changed = shown(|| "the password is being changed".to_owned(), interrupted, changing).await?;
        let changed = changed.map_err(|error| match error {
            KopiaError::WrongPassword { .. } => {
                anyhow::Error::new(error).context(format!("nothing was changed: look at {}", old_file.display()))
            }
            KopiaError::Bucket(_) => anyhow::Error::new(error).context(
                "the change may be done in part: one of the two passwords opens the repository; run the same command again to \
                 finish it",
            ),
            error => error.into(),
        })?;
        let text = match changed {
            PasswordChanged::Now => "The password is changed",
            PasswordChanged::Finished => "A change of the password that was cut off is finished",
            PasswordChanged::Before => "Nothing was left to do: the repository has the new password already",
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}: {described}")?;
        match &self.new_password_file {
            Some(file) => writeln!(out, "From now on the file {} opens it: keep a copy elsewhere.", file.display())?,
            None => writeln!(out, "Keep the new password: nobody can read the repository without it.")?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// True where Velero opens the repository: by the flags, by its place in a bucket, or by Velero's own password.
fn is_of_velero(location: Location<'_>, old: &Password) -> bool {
    let is_in_its_place = match location {
        Location::Velero { .. } => true,
        Location::Url(url) => {
            let path = url.split_once('?').map_or(url, |(path, _)| path);
            path.trim_end_matches('/').rsplit('/').nth(1) == Some("kopia")
        }
    };
    is_in_its_place || old.as_bytes() == DEFAULT_PASSWORD.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_of_velero_is_known_by_flags_place_or_password() {
        let other = Password::new("other".to_owned());
        let velero = Password::new("static-passw0rd".to_owned());
        for (location, password, expected) in [
            (Location::Velero { namespace: "shop", bucket: "/b" }, &other, true),
            (Location::Url("s3://bucket/prefix/kopia/shop?region=x"), &other, true),
            (Location::Url("/srv/bucket/kopia/shop/"), &other, true),
            (Location::Url("s3://bucket/kopia"), &other, false),
            (Location::Url("/srv/backup"), &other, false),
            (Location::Url("/srv/backup"), &velero, true),
        ] {
            assert_eq!(is_of_velero(location, password), expected, "{location:?}");
        }
    }
}
