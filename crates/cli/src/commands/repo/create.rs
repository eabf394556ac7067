//! `lifeboat repo create`.

use super::format::RepositoryFormat;
use super::{Location, RepositoryArgs, password};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use lifeboat_bucket::BlobStore;
use lifeboat_kopia::blobs::layout::Layout;
use lifeboat_kopia::crypto::{CipherAlgorithm, HashAlgorithm, Zeroizing};
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::splitter::SplitterAlgorithm;
use lifeboat_kopia::{KopiaError, Repository};
use lifeboat_repository::blobs_of;
use lifeboat_standalone::bucket_url::{self, EmptyFolders};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::random::random;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The random bytes of a password.
const PASSWORD_BYTES: usize = 32;
/// The hash that the format has and with which kopia cannot open a repository.
const UNOPENABLE_HASH: &str = "BLAKE2S-128";

/// The help of `--password-file`, which makes the file here.
const PASSWORD_FILE: &str = "A file with the password of the repository. When it is not there, a random password is made and \
                             written into it; not with --velero, where it is the key repository-password of the Secret \
                             velero-repo-credentials";

/// `lifeboat repo create`.
#[derive(Debug, Args)]
#[command(mut_arg("password_file", |file| file.help(PASSWORD_FILE)))]
pub(crate) struct CreateArgs {
    /// The hash by which contents are named: BLAKE2B-256-128, BLAKE3-256-128, HMAC-SHA256-128 or another one of kopia's
    #[arg(long, value_name = "NAME", default_value = "BLAKE2B-256-128")]
    hash: String,
    /// The encryption: AES256-GCM-HMAC-SHA256 or CHACHA20-POLY1305-HMAC-SHA256
    #[arg(long, value_name = "NAME", default_value = "AES256-GCM-HMAC-SHA256")]
    encryption: String,
    /// The splitter by which files are cut into contents: DYNAMIC-4M-BUZHASH, FIXED-1M or another one of kopia's
    #[arg(long, value_name = "NAME", default_value = "DYNAMIC-4M-BUZHASH")]
    splitter: String,
    /// Error correction, in percent of the data; 0 for none
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    ecc_overhead: u8,
    /// The version of the format, 1 to 3
    #[arg(long, value_name = "VERSION", default_value_t = 3)]
    format_version: u32,
    #[command(flatten)]
    repository: RepositoryArgs,
}

impl CreateArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        self.repository.refuse_recovery()?;
        let new = self.parameters()?;
        let file = self.repository.password_file()?;
        if self.repository.format == Some(RepositoryFormat::Restic) {
            bail!(
                "--format restic: repositories of restic are read and never made; leave the flag out for one of kopia"
            );
        }
        let location = self.repository.location()?;
        // A folder that is made for nothing goes again.
        let _folders = match location {
            Location::Url(url) => Some(EmptyFolders::of(url)),
            Location::Velero { .. } => None,
        };
        let (store, layout) = open(location, globals).await?;
        let is_made = !file.exists();
        if is_made {
            if self.repository.is_of_velero() {
                bail!(
                    "{} is not there: a repository of Velero has the password that the Secret velero-repo-credentials has \
                     under the key repository-password; write that into the file",
                    file.display()
                );
            }
            make_password(file)?;
        }
        let password = password(file)?;
        let described = store.describe();
        match Repository::create(store, &password, &new, &random(), &layout).await {
            Ok(()) => {}
            Err(error) => {
                let is_untouched = matches!(
                    error,
                    KopiaError::RepositoryExists { .. } | KopiaError::NotEmpty { .. } | KopiaError::Refused { .. }
                );
                let mut attempt = format!("make a repository in {described}");
                if is_made && is_untouched {
                    // Nothing has this password.
                    std::fs::remove_file(file).with_context(|| format!("remove {}", file.display()))?;
                } else if is_made {
                    // What was written may need it.
                    attempt = format!("{attempt}, with the new password that stays in {}", file.display());
                }
                return Err(anyhow::Error::new(error).context(attempt));
            }
        }
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "Repository made in {described}: version {} of the format, {}, {}, {}.",
            new.version,
            new.hash.name(),
            new.encryption.name(),
            new.splitter
        )?;
        let file = file.display();
        if is_made {
            writeln!(out, "Made a random password in the file {file}.")?;
        }
        writeln!(
            out,
            "Keep a copy of the file {file} elsewhere: without the password nobody can read the repository."
        )?;
        Ok(ExitCode::SUCCESS)
    }

    fn parameters(&self) -> Result<NewRepository> {
        let names = |names: Vec<&str>| names.join(", ");
        let hashes = || {
            names(HashAlgorithm::ALL.iter().map(|hash| hash.name()).filter(|name| *name != UNOPENABLE_HASH).collect())
        };
        let hash = HashAlgorithm::from_name(&self.hash).filter(|hash| hash.name() != UNOPENABLE_HASH);
        let encryption = CipherAlgorithm::from_name(&self.encryption);
        let ciphers = || names(CipherAlgorithm::ALL.iter().map(|cipher| cipher.name()).collect());
        SplitterAlgorithm::parse(&self.splitter).ok().filter(|_| !self.splitter.is_empty()).with_context(|| {
            format!("--splitter {}: use one of {}", self.splitter, SplitterAlgorithm::names().join(", "))
        })?;
        if self.ecc_overhead > 100 {
            bail!("--ecc-overhead {}: use 0 to 100 percent", self.ecc_overhead);
        }
        if !(1..=3).contains(&self.format_version) {
            bail!("--format-version {}: use 1, 2 or 3", self.format_version);
        }
        if self.format_version == 1 && self.ecc_overhead > 0 {
            bail!("--ecc-overhead: version 1 of the format has no error correction");
        }
        Ok(NewRepository {
            hash: hash.ok_or_else(|| anyhow!("--hash {}: use one of {}", self.hash, hashes()))?,
            encryption: encryption
                .ok_or_else(|| anyhow!("--encryption {}: use one of {}", self.encryption, ciphers()))?,
            splitter: self.splitter.clone(),
            ecc_overhead_percent: self.ecc_overhead,
            version: self.format_version,
            ..NewRepository::default()
        })
    }
}

/// Opens the place of a new repository. That of a namespace has the layout of a bucket, wherever it is.
async fn open(location: Location<'_>, globals: &Globals) -> Result<(Arc<dyn BlobStore>, Layout)> {
    match location {
        Location::Url(url) => {
            let layout = if bucket_url::is_directory("--repo", url)? { Layout::sharded() } else { Layout::Flat };
            Ok((bucket_url::open_to_make("--repo", url, globals.patience()).await?, layout))
        }
        Location::Velero { namespace, bucket } => {
            let bucket = bucket_url::open_existing("--bucket", bucket, globals.patience()).await?;
            Ok((blobs_of(bucket, namespace), Layout::Flat))
        }
    }
}

/// Writes a random password into a file that nobody else may read.
fn make_password(file: &Path) -> Result<()> {
    let attempt = || format!("write a new password into {}", file.display());
    let mut bytes = Zeroizing::new([0_u8; PASSWORD_BYTES]);
    random()(&mut *bytes);
    let mut password = Zeroizing::new([0_u8; 2 * PASSWORD_BYTES]);
    hex::encode_to_slice(bytes.as_slice(), &mut *password).with_context(attempt)?;
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let mut opened = match opened {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => bail!("{} was made meanwhile: try again", file.display()),
        opened => opened.with_context(attempt)?,
    };
    opened.write_all(&*password).and_then(|()| opened.write_all(b"\n")).with_context(attempt)?;
    opened.sync_all().with_context(attempt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CreateArgs,
    }

    fn parameters(line: &[&str]) -> Result<NewRepository, String> {
        let line = Line::try_parse_from([&["create"], line].concat()).map_err(|e| e.to_string())?;
        line.args.parameters().map_err(|e| e.to_string())
    }

    #[test]
    fn without_flags_a_repository_is_like_those_of_kopia_and_velero() {
        assert_eq!(parameters(&[]), Ok(NewRepository::default()));
        let blake3 = parameters(&["--hash", "BLAKE3-256-128", "--ecc-overhead", "5", "--format-version", "2"]).unwrap();
        assert_eq!((blake3.hash.name(), blake3.ecc_overhead_percent, blake3.version), ("BLAKE3-256-128", 5, 2));
    }

    #[test]
    fn what_kopia_could_not_open_is_refused_with_what_there_is() {
        for (line, expected) in [
            (["--hash", "MD5"], "--hash MD5: use one of BLAKE2B-256-128, "),
            (["--hash", "BLAKE2S-128"], "--hash BLAKE2S-128: use one of "),
            (["--encryption", "none"], "--encryption none: use one of AES256-GCM-HMAC-SHA256, CHACHA20"),
            (["--splitter", ""], "--splitter : use one of FIXED, DYNAMIC, "),
            (["--ecc-overhead", "101"], "--ecc-overhead 101: use 0 to 100 percent"),
            (["--format-version", "4"], "--format-version 4: use 1, 2 or 3"),
        ] {
            let error = parameters(&line).unwrap_err();
            assert!(error.starts_with(expected), "{line:?}: {error}");
        }
    }

    #[test]
    fn the_help_says_that_the_file_of_the_password_is_made() {
        use clap::CommandFactory;
        // Lines break where the terminal ends.
        let help = Line::command().render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("When it is not there, a random password is made and written into it"), "{help}");
    }

    #[test]
    fn a_new_password_is_long_and_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        make_password(&file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!((text.len(), file.metadata().unwrap().permissions().mode() & 0o777), (65, 0o600));
        assert!(make_password(&file).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}
