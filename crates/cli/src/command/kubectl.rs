//! The program as a plugin of kubectl: the meaning of `-n` there.
//!
//! `-n` is the namespace of the objects that a command is about, as everywhere in kubectl. A few commands are about objects of users;
//! all others are about resources of `velero.io`, and there it is the namespace in which these live.

use clap::{Arg, Command};
use std::collections::BTreeSet;
use std::ffi::OsString;

/// Commands about objects of users, by the words that lead to them. `Lifeboat::object_namespace` knows their flags.
const OF_OBJECTS: [&[&str]; 12] = [
    &["undelete"],
    &["diff"],
    &["history"],
    &["browse"],
    &["volume", "explain"],
    &["volume", "ls"],
    &["volume", "cat"],
    &["volume", "restore"],
    &["backup", "contents", "get"],
    &["backup", "contents", "extract"],
    &["local", "contents", "get"],
    &["local", "contents", "extract"],
];

/// The grammar with what is otherwise in a plugin of kubectl: the flag for the namespace of `velero.io`, and what `-n` means.
pub(crate) fn with_namespaces(grammar: Command) -> Command {
    let help = "The namespace of the objects, for commands about objects, such as undelete and diff; for all others as \
                --lifeboat-namespace";
    let grammar = grammar.mut_arg("given_namespace", |arg| arg.help(help).long_help(help));
    grammar.mut_arg("lifeboat_namespace", |arg| arg.hide(false))
}

/// Returns true if the words of a line, without the program, lead to a command about objects of users. `globals` has
/// the flags that may stand before a command.
pub(crate) fn is_about_objects(globals: &Command, words: &[OsString]) -> bool {
    let with_value = flags_before_values(globals);
    let mut path = Vec::new();
    let mut words = words.iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        if with_value.contains(&*word) {
            words.next();
        } else if !word.starts_with('-') {
            path.push(word);
        }
    }
    // Names may stand between the words of a command, never before them.
    let leads = |command: &&[&str]| {
        let mut rest = path.iter();
        path.first().is_some_and(|first| *first == command[0]) && command.iter().all(|word| rest.any(|one| one == word))
    };
    OF_OBJECTS.iter().any(leads)
}

/// The flags whose value is the next word.
fn flags_before_values(grammar: &Command) -> BTreeSet<String> {
    let takes_word = |arg: &&Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
    let args = grammar.get_arguments().filter(takes_word);
    let names = args.flat_map(|arg| {
        let short = arg.get_short().map(|short| format!("-{short}"));
        arg.get_long().map(|long| format!("--{long}")).into_iter().chain(short)
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Lifeboat;
    use lifeboat_terminal::flags::object_namespace::ObjectNamespace;
    use lifeboat_terminal::process::program::Program;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(Into::into).collect()
    }

    /// A line of each command about objects.
    const LINES: [&str; 9] = [
        "undelete cm/a",
        "diff a b --bucket x",
        "history cm/a --bucket x",
        "browse a",
        "volume explain",
        "backup contents a get cm",
        "backup contents a extract folder",
        "local contents a --bucket x get cm",
        "local contents a --bucket x extract folder",
    ];

    #[test]
    fn the_namespace_of_commands_about_objects_is_that_of_the_objects() {
        for line in LINES {
            for line in [format!("{line} -n shop"), format!("-v 4 --colorized -n shop {line}")] {
                let mut command = Lifeboat::parsed(&line);
                assert!(is_about_objects(&Lifeboat::grammar("lifeboat"), &words(&line)), "{line}");
                command.take_object_namespace().unwrap();
                let named = match command.object_namespace() {
                    Some(ObjectNamespace::One(name)) => name.iter().cloned().collect(),
                    Some(ObjectNamespace::Several(names)) => names.0.clone(),
                    None => Vec::new(),
                };
                assert_eq!(named, ["shop"], "{line}");
                assert_eq!(command.globals.settled(Program::default()).namespace, "velero", "{line}");
            }
        }
        for line in [
            "backup get -n shop",
            "version",
            "-n undelete backup get",
            "--features undelete backup get",
            "backup contents a -n shop",
        ] {
            assert!(!is_about_objects(&Lifeboat::grammar("lifeboat"), &words(line)), "{line}");
            let mut command = Lifeboat::parsed(line);
            command.take_object_namespace().unwrap();
            assert!(command.object_namespace().is_none(), "{line}");
        }
        let mut command = Lifeboat::parsed("undelete cm/a -n shop --lifeboat-namespace backups");
        command.take_object_namespace().unwrap();
        assert_eq!(command.globals.settled(Program::default()).namespace, "backups");
    }

    #[test]
    fn two_namespaces_are_refused() {
        let refused = |line: &str| Lifeboat::parsed(line).take_object_namespace().err();
        assert_eq!(refused("undelete cm/a -n shop --object-namespace shop"), None);
        let told = "--namespace a and --object-namespace b do not name the same: give one of them";
        assert_eq!(refused("undelete cm/a -n a --object-namespace b").as_deref(), Some(told));
        let told = "--namespace a and --include-namespaces a,b do not name the same: give one of them";
        assert_eq!(refused("diff x y --bucket z -n a --include-namespaces a,b").as_deref(), Some(told));
    }

    #[test]
    fn the_page_names_the_commands_about_objects() {
        let page = include_str!("../../../../docs/cli.md");
        let of_plugin = page.split("\n## ").find(|section| section.starts_with("In kubectl\n")).unwrap();
        let paragraph =
            of_plugin.split("\n\n").find(|text| text.contains("means the namespace of the objects")).unwrap();
        let words: BTreeSet<&str> = paragraph.split('`').skip(1).step_by(2).collect();
        for path in OF_OBJECTS {
            let (last, before) = path.split_last().unwrap();
            let together = path.join(" ");
            let named = words.contains(&*together) || (words.contains(last) && words.contains(&*before.join(" ")));
            assert!(named, "{together}");
        }
    }

    /// A command that is about the objects of a namespace, and that the list has forgotten.
    #[test]
    fn no_command_with_a_flag_for_the_namespace_of_objects_is_forgotten() {
        fn below(command: &Command, path: &[String], found: &mut BTreeSet<Vec<String>>) {
            if command.get_arguments().any(|arg| arg.get_id() == "object_namespace") {
                found.insert(path.to_vec());
            }
            for one in command.get_subcommands() {
                below(one, &[path, &[one.get_name().to_owned()]].concat(), found);
            }
        }
        let mut found = BTreeSet::new();
        below(&Lifeboat::grammar("lifeboat"), &[], &mut found);
        let known: BTreeSet<Vec<String>> =
            OF_OBJECTS.iter().map(|path| path.iter().map(|word| (*word).to_owned()).collect()).collect();
        assert_eq!(found.difference(&known).count(), 0, "{found:?}");
    }
}
