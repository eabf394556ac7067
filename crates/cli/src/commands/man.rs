//! `lifeboat man DIRECTORY`: the help of all commands as man pages, for packagers.

use anyhow::{Context, Result};
use clap::{Args, Command};
use lifeboat_terminal::flags::globals::Globals;
use std::path::PathBuf;
use std::process::ExitCode;

/// Where the pages go.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory to write NAME.1 and NAME-COMMAND.1 into; it is made
    directory: PathBuf,
}

impl ManArgs {
    /// Writes them. `grammar` gives the commands of a program of this name.
    pub(crate) fn run(self, globals: &Globals, grammar: fn(&str) -> Command) -> Result<ExitCode> {
        let wrong = || format!("write man pages into {}", self.directory.display());
        std::fs::create_dir_all(&self.directory).with_context(wrong)?;
        clap_mangen::generate_to(grammar(&globals.program.name), &self.directory).with_context(wrong)?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Lifeboat;
    use lifeboat_terminal::process::program::Program;

    #[test]
    fn each_command_has_a_page_with_its_flags() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("man1");
        let mut program = Program::default();
        program.name = "lifeboat".to_owned();
        let globals = Lifeboat::parsed("version").globals.settled(program);
        ManArgs { directory: directory.clone() }.run(&globals, Lifeboat::grammar).unwrap();
        let page = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
        assert!(page("lifeboat.1").contains("lifeboat\\-backup(1)"), "{}", page("lifeboat.1"));
        let create = page("lifeboat-backup-create.1");
        assert!(create.contains("\\-\\-include\\-namespaces"), "{create}");
    }

    #[test]
    fn the_help_command_has_no_page() {
        let folder = tempfile::tempdir().unwrap();
        clap_mangen::generate_to(Lifeboat::grammar("lifeboat"), folder.path()).unwrap();
        let names: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        assert!(!names.iter().any(|name| name.contains("help")), "{names:?}");
    }
}
