//! `lifeboat volume`: what a backup does with volumes, and the files of the volumes of a backup.

pub(crate) mod cat;
pub(crate) mod explain;
pub(crate) mod list;
pub(crate) mod restore;
pub(crate) mod saved;

use anyhow::Result;
use clap::Subcommand;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::object_namespace::ObjectNamespace;
use std::process::ExitCode;

/// `lifeboat volume …`.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Say what a backup with these flags would do with volumes, which rule decides, and what would have to change
    Explain(Box<explain::ExplainArgs>),
    /// List files of a volume of a backup whose data is in a repository
    Ls(list::VolumeLsArgs),
    /// Print a file of a volume of a backup whose data is in a repository
    Cat(cat::VolumeCatArgs),
    /// Write a volume of a backup, or files of it, into a folder, a file or a device of this machine
    Restore(Box<restore::VolumeRestoreArgs>),
}

impl VolumeCommand {
    /// The flag that names the namespace of the volumes.
    pub(crate) fn object_namespace(&mut self) -> ObjectNamespace<'_> {
        ObjectNamespace::One(match self {
            Self::Explain(args) => &mut args.object_namespace,
            Self::Ls(args) => &mut args.volume.object_namespace,
            Self::Cat(args) => &mut args.volume.object_namespace,
            Self::Restore(args) => &mut args.volume.object_namespace,
        })
    }

    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Explain(args) => Box::pin(args.run(globals)).await,
            Self::Ls(args) => Box::pin(args.run(globals)).await,
            Self::Cat(args) => Box::pin(args.run(globals)).await,
            Self::Restore(args) => Box::pin(args.run(globals)).await,
        }
    }
}
