//! A tree that is mounted.

use crate::error::MountError;
use crate::file_system::{FileSystem, OpenFiles, Report};
use crate::tree::Tree;
use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Questions of the kernel that are answered at once.
const THREADS: usize = 8;

/// Options of a mount.
#[derive(Clone)]
pub struct MountOptions {
    /// The name of what is mounted, as `mount` and `df` show it.
    pub name: String,
    /// True where other users may look into it, as the permissions in the snapshot allow.
    pub allows_others: bool,
    /// Called with a sentence for each entry that cannot be read.
    pub report: Report,
}

impl std::fmt::Debug for MountOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, allows_others, .. } = self;
        f.debug_struct("MountOptions").field("name", name).field("allows_others", allows_others).finish_non_exhaustive()
    }
}

/// A tree that is mounted on a folder. It is unmounted when this is dropped.
#[derive(Debug)]
pub struct Mount {
    folder: PathBuf,
    unmounter: SessionUnmounter,
    /// The session, which ends with the mount.
    session: JoinSet<std::io::Result<()>>,
}

impl Mount {
    /// Mounts a tree on an empty folder, where it can be read and not changed: nothing in it runs with the rights of its
    /// owner, and its devices are none. Must be called in a runtime, which reads what is asked for.
    ///
    /// # Errors
    /// A folder that is not there or not empty; a system that refuses it.
    pub fn begin(tree: Tree, folder: &Path, options: MountOptions) -> Result<Self, MountError> {
        let unusable = |source| MountError::Folder { folder: folder.to_owned(), source };
        if std::fs::read_dir(folder).map_err(unusable)?.next().is_some() {
            return Err(MountError::NotEmpty { folder: folder.to_owned() });
        }
        let MountOptions { name, allows_others, report } = options;
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::RO,
            MountOption::NoDev,
            MountOption::NoSuid,
            MountOption::NoAtime,
            MountOption::FSName(name),
            MountOption::Subtype("lifeboat".to_owned()),
        ];
        if allows_others {
            config.acl = SessionACL::All;
            config.mount_options.push(MountOption::DefaultPermissions);
        }
        config.n_threads = Some(THREADS);
        let runtime = Handle::current();
        let file_system = FileSystem { tree, runtime, report, open: OpenFiles::default(), told: Mutex::default() };
        let refused = |source| MountError::Refused { folder: folder.to_owned(), source };
        let mut mounted = Session::new(file_system, folder, &config).map_err(refused)?;
        let unmounter = mounted.unmount_callable();
        let mut session = JoinSet::new();
        session.spawn_blocking(move || mounted.run());
        Ok(Self { folder: folder.to_owned(), unmounter, session })
    }

    /// Waits until nobody uses it any more after it was unmounted, by [`Mount::unmount`] or by another program. Can be called again when the
    /// future was dropped.
    ///
    /// # Errors
    /// The connection to the kernel broke.
    pub async fn ended(&mut self) -> Result<(), MountError> {
        let ended = |source| MountError::Ended { folder: self.folder.clone(), source };
        match self.session.join_next().await {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(source))) => Err(ended(source)),
            Some(Err(broken)) => Err(ended(std::io::Error::other(broken))),
        }
    }

    /// Takes it out of the tree of files. Who has it open reads on until [`Mount::ended`] returns or the process ends.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn unmount(&mut self) -> Result<(), MountError> {
        self.unmounter.unmount().map_err(|source| MountError::Ended { folder: self.folder.clone(), source })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The session would wait for it for ever.
        let _ = self.unmounter.unmount();
    }
}
