//! The plugins of all programs, by kind and name (velero: pkg/plugin/framework/server.go).

use crate::identity::{PluginIdentity, PluginKind, PluginName};
use crate::options::HostOptions;
use lifeboat_plugin_proto::generated::PluginIdentifier;
use std::path::{Path, PathBuf};

/// All plugins, in the order in which their programs have reported them.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    plugins: Vec<PluginIdentity>,
    /// The program of each.
    programs: Vec<PathBuf>,
}

/// The actions of one program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProgramActions<'a> {
    /// The program.
    pub(crate) program: &'a Path,
    /// Its actions, in order.
    pub(crate) actions: Vec<&'a PluginIdentity>,
}

impl Registry {
    /// Adds what a program reports. What is wrong with it is added to `problems`, a sentence each.
    pub(crate) fn add(
        &mut self,
        program: &Path,
        reported: Vec<PluginIdentifier>,
        options: &HostOptions,
        problems: &mut Vec<String>,
    ) {
        for plugin in reported {
            let Some(kind) = PluginKind::of(&plugin.kind) else {
                let (kind, name) = (&plugin.kind, &plugin.name);
                tracing::warn!(program = %program.display(), kind, name, "a plugin of an unknown kind is passed over");
                continue;
            };
            match plugin.name.parse() {
                Ok(name) => problems.extend(self.register(program, PluginIdentity { kind, name }, options).err()),
                Err(e) => problems.push(format!("{} reports an {e}", program.display())),
            }
        }
    }

    fn register(&mut self, program: &Path, plugin: PluginIdentity, options: &HostOptions) -> Result<(), String> {
        let PluginIdentity { kind, name } = &plugin;
        let command = program.display();
        let refused = |other: &str, advice: &str| {
            format!(
                "unable to register plugin (kind={kind}, name={name}, command={command}) because another plugin is already \
                 registered for this kind and name ({other}): {advice}"
            )
        };
        if options.built_in.contains(&plugin) && !options.replaceable.contains(&plugin) {
            let advice = "what it does is built in; take the program out of the plugin directory, with the init container that \
                          puts it there";
            return Err(refused("it is built in", advice));
        }
        if let Some(other) = self.program_of(*kind, name) {
            let advice = "take one of both programs out of the plugin directory";
            return Err(refused(&format!("command={}", other.display()), advice));
        }
        self.plugins.push(plugin);
        self.programs.push(program.to_owned());
        Ok(())
    }

    /// All plugins.
    pub(crate) fn plugins(&self) -> &[PluginIdentity] {
        &self.plugins
    }

    /// The program that has this plugin.
    pub(crate) fn program_of(&self, kind: PluginKind, name: &PluginName) -> Option<&Path> {
        let found = self.plugins.iter().position(|plugin| plugin.kind == kind && plugin.name == *name)?;
        self.programs.get(found).map(PathBuf::as_path)
    }

    /// The actions of all programs that have any. Of two versions of the same name there is the second alone, as plugins are
    /// looked up by their name.
    pub(crate) fn actions(&self) -> Vec<ProgramActions<'_>> {
        let mut out: Vec<ProgramActions<'_>> = Vec::new();
        for (plugin, program) in self.plugins.iter().zip(&self.programs) {
            let newer = match plugin.kind {
                PluginKind::ObjectStore | PluginKind::VolumeSnapshotter => continue,
                PluginKind::BackupItemAction => Some(PluginKind::BackupItemActionV2),
                PluginKind::RestoreItemAction => Some(PluginKind::RestoreItemActionV2),
                _ => None,
            };
            if newer.is_some_and(|kind| self.program_of(kind, &plugin.name).is_some()) {
                continue;
            }
            match out.last_mut().filter(|last| last.program == program) {
                Some(last) => last.actions.push(plugin),
                None => out.push(ProgramActions { program, actions: vec![plugin] }),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn options(built_in: &[(PluginKind, &str)], replaceable: &[(PluginKind, &str)]) -> HostOptions {
        let identities = |all: &[(PluginKind, &str)]| all.iter().map(|(kind, name)| identity(*kind, name)).collect();
        HostOptions {
            directory: "/plugins".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            built_in: identities(built_in),
            replaceable: identities(replaceable),
            call_timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(1),
        }
    }

    fn identity(kind: PluginKind, name: &str) -> PluginIdentity {
        PluginIdentity { kind, name: name.parse().unwrap() }
    }

    fn reported(plugins: &[(&str, &str)]) -> Vec<PluginIdentifier> {
        let identifier = |(kind, name): &(&str, &str)| PluginIdentifier {
            command: "x".to_owned(),
            kind: (*kind).to_owned(),
            name: (*name).to_owned(),
        };
        plugins.iter().map(identifier).collect()
    }

    #[test]
    fn plugins_stay_in_order_and_the_second_version_stands_for_both() {
        let mut registry = Registry::default();
        let (options, mut problems) = (options(&[], &[]), Vec::new());
        let first = [
            ("BackupItemAction", "a.io/both"),
            ("BackupItemAction", "a.io/old"),
            ("BackupItemActionV2", "a.io/both"),
            ("ItemSnapshotter", "a.io/unknown"),
            ("ObjectStore", "a.io/store"),
            ("RestoreItemAction", "a.io/both"),
        ];
        registry.add(Path::new("/plugins/a"), reported(&first), &options, &mut problems);
        let second = [("VolumeSnapshotter", "b.io/s")];
        registry.add(Path::new("/plugins/b"), reported(&second), &options, &mut problems);
        let third = [("RestoreItemActionV2", "c.io/x"), ("DeleteItemAction", "c.io/x"), ("ItemBlockAction", "c.io/x")];
        registry.add(Path::new("/plugins/c"), reported(&third), &options, &mut problems);
        assert_eq!(problems, [""; 0]);
        let expected = [
            identity(PluginKind::BackupItemAction, "a.io/both"),
            identity(PluginKind::BackupItemAction, "a.io/old"),
            identity(PluginKind::BackupItemActionV2, "a.io/both"),
            identity(PluginKind::ObjectStore, "a.io/store"),
            identity(PluginKind::RestoreItemAction, "a.io/both"),
            identity(PluginKind::VolumeSnapshotter, "b.io/s"),
            identity(PluginKind::RestoreItemActionV2, "c.io/x"),
            identity(PluginKind::DeleteItemAction, "c.io/x"),
            identity(PluginKind::ItemBlockAction, "c.io/x"),
        ];
        assert_eq!(registry.plugins(), expected);
        let actions = |program, numbers: &[usize]| ProgramActions {
            program: Path::new(program),
            actions: numbers.iter().map(|n| &expected[*n]).collect(),
        };
        assert_eq!(registry.actions(), [actions("/plugins/a", &[1, 2, 4]), actions("/plugins/c", &[6, 7, 8])]);
        let store = "a.io/store".parse().unwrap();
        assert_eq!(registry.program_of(PluginKind::ObjectStore, &store), Some(Path::new("/plugins/a")));
        assert_eq!(registry.program_of(PluginKind::VolumeSnapshotter, &store), None);
    }

    #[test]
    fn names_that_are_wrong_or_taken_are_refused_with_advice() {
        let built_in = [
            (PluginKind::BackupItemActionV2, "velero.io/csi-pvc-backupper"),
            (PluginKind::ObjectStore, "velero.io/aws"),
        ];
        let options = options(&built_in, &built_in[1..]);
        let (mut registry, mut problems) = (Registry::default(), Vec::new());
        let first = [
            ("BackupItemActionV2", "velero.io/csi-pvc-backupper"),
            ("ObjectStore", "velero.io/aws"),
            ("ObjectStore", "none"),
        ];
        registry.add(Path::new("/plugins/a"), reported(&first), &options, &mut problems);
        let second = [("ObjectStore", "velero.io/aws"), ("VolumeSnapshotter", "velero.io/aws")];
        registry.add(Path::new("/plugins/b"), reported(&second), &options, &mut problems);
        let registered = "because another plugin is already registered for this kind and name";
        assert_eq!(
            problems,
            [
                format!(
                    "unable to register plugin (kind=BackupItemActionV2, name=velero.io/csi-pvc-backupper, command=/plugins/a) \
                     {registered} (it is built in): what it does is built in; take the program out of the plugin directory, with \
                     the init container that puts it there"
                ),
                "/plugins/a reports an invalid plugin name \"none\": it has a prefix and a name with one slash between them"
                    .to_owned(),
                format!(
                    "unable to register plugin (kind=ObjectStore, name=velero.io/aws, command=/plugins/b) {registered} \
                     (command=/plugins/a): take one of both programs out of the plugin directory"
                ),
            ]
        );
        let expected = [
            identity(PluginKind::ObjectStore, "velero.io/aws"),
            identity(PluginKind::VolumeSnapshotter, "velero.io/aws"),
        ];
        assert_eq!(registry.plugins(), expected);
    }
}
