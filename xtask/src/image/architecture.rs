//! The architectures that images are made for.

use anyhow::{Context, Result, bail};
use lifeboat_testbed::{DebianPackage, install_debian_packages};
use std::path::Path;
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    /// In the order in which an archive has them.
    pub(crate) const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// As images call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    pub(crate) fn of_name(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|architecture| architecture.name() == name);
        found.with_context(|| format!("unknown architecture {name:?}: amd64 or arm64"))
    }

    /// The variant of it that images name, when there are several.
    pub(crate) fn variant(self) -> Option<&'static str> {
        match self {
            Self::Amd64 => None,
            Self::Arm64 => Some("v8"),
        }
    }

    /// As the compiler calls it with musl.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    /// Flags for compiling the C parts for it, besides the defaults.
    pub(crate) fn flags_for_c(self) -> &'static str {
        match self {
            // zig turns off whatever the oldest processor lacks, and with it what libdeflate needs for functions that
            // it calls only where the processor is found to have it.
            Self::Amd64 => "-mevex512",
            Self::Arm64 => "",
        }
    }

    /// The architecture of a program, by the number in its header.
    pub(crate) fn of_machine(number: u64) -> Result<Self> {
        match number {
            62 => Ok(Self::Amd64),
            183 => Ok(Self::Arm64),
            other => bail!("it is for a machine of the number {other}, neither amd64 nor arm64"),
        }
    }

    fn is_of_this_machine(self) -> bool {
        self.target().starts_with(&format!("{}-", std::env::consts::ARCH)) && cfg!(target_os = "linux")
    }

    /// The one whose programs this machine runs fastest.
    pub(crate) fn easiest(of: &[Self]) -> Option<Self> {
        of.iter().copied().find(|architecture| architecture.is_of_this_machine()).or(of.first().copied())
    }

    /// A command that runs a program of this architecture under a name, under an emulator where the machine is another.
    pub(crate) fn run(self, program: &Path, name: &str) -> Result<Command> {
        use std::os::unix::process::CommandExt;
        if self.is_of_this_machine() {
            let mut command = Command::new(program);
            command.arg0(name);
            return Ok(command);
        }
        let emulator = match self {
            Self::Amd64 => "/usr/bin/qemu-x86_64-static",
            Self::Arm64 => "/usr/bin/qemu-aarch64-static",
        };
        install_debian_packages(&[DebianPackage { name: "qemu-user-static", program: emulator }])
            .with_context(|| format!("a program for {} needs an emulator to run here", self.name()))?;
        let mut command = Command::new(emulator);
        command.args(["-0", name]).arg(program);
        Ok(command)
    }
}
