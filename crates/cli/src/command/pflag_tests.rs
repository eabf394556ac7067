//! The rules of pflag, held against the flags of all commands.

use crate::command::Lifeboat;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use lifeboat_terminal::flags::{KeyValuePairs, Optional};
use std::any::TypeId;
use std::collections::BTreeSet;

/// All commands with the words that lead to them.
fn commands(command: &Command, path: &[String]) -> Vec<(Vec<String>, Command)> {
    let mut found = vec![(path.to_vec(), command.clone())];
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        found.extend(commands(below, &[path, &[below.get_name().to_owned()]].concat()));
    }
    found
}

/// The flags of all commands with the words that lead to them, also the global ones.
fn flags_of_all() -> Vec<(Vec<String>, Arg)> {
    let mut grammar = Lifeboat::grammar("velero");
    grammar.build();
    let own = |arg: &&Arg| !arg.is_positional() && !["help", "version"].contains(&arg.get_id().as_str());
    let flags = |(path, command): (Vec<String>, Command)| {
        let found: Vec<Arg> = command.get_arguments().filter(own).cloned().collect();
        found.into_iter().map(move |arg| (path.clone(), arg))
    };
    commands(&grammar, &[]).into_iter().flat_map(flags).collect()
}

/// The grammar; nothing is required of a line.
fn lax() -> Command {
    fn nested(command: Command) -> Command {
        command.mut_args(|arg| arg.required(false)).mut_subcommands(nested)
    }
    nested(Lifeboat::grammar("velero"))
}

/// Returns the values of a flag after a line is parsed.
fn raw(grammar: &mut Command, path: &[String], words: &[String], id: &str) -> Result<Vec<String>, clap::Error> {
    let line = [&["velero".to_owned()], path, words].concat();
    let matches = grammar.try_get_matches_from_mut(line)?;
    let deepest = path.iter().fold(&matches, |matches, name| matches.subcommand_matches(name).unwrap());
    let values = deepest.get_raw(id).into_iter().flatten();
    Ok(values.map(|value| value.to_string_lossy().into_owned()).collect())
}

/// Returns other flags that the line must have.
fn beside(path: &[String], id: &str) -> Vec<String> {
    let words: &[&str] = match (path.join(" ").as_str(), id) {
        ("local restore", "from_backup" | "from_schedule") => &[],
        ("local restore", "dry_run") => &["--from-backup=b"],
        ("local restore", _) => &["--from-backup=b", "--dry-run"],
        ("repo snapshot", "since") => &["--changed=f"],
        ("repo snapshot", "changed") => &["--since=s"],
        _ => &[],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn is_truth(arg: &Arg) -> bool {
    let kind = arg.get_value_parser().type_id();
    kind == TypeId::of::<bool>() || kind == TypeId::of::<Optional<bool>>()
}

/// Maps merge, `strings` accumulate, everything else takes the last.
#[test]
fn every_flag_may_be_given_again() {
    const SAMPLES: [(&str, &str); 13] = [
        ("1", "2"),
        ("30", "31"),
        ("1m", "2m"),
        ("a=b", "c=d"),
        ("a:b", "c:d"),
        ("json", "yaml"),
        ("none", "update"),
        ("Full", "incremental"),
        ("127.0.0.1:1", "127.0.0.1:2"),
        ("a=none", "b=update"),
        ("true", "false"),
        ("single", "single"),
        ("nas:/a", "nas:/b"),
    ];
    let (mut grammar, mut adding) = (lax(), BTreeSet::new());
    let flags = flags_of_all();
    assert!(flags.len() > 500, "{}", flags.len());
    for (path, arg) in flags {
        let (id, flag) = (arg.get_id().as_str(), format!("--{}", arg.get_long().unwrap()));
        let what = format!("velero {} {flag}", path.join(" "));
        let adds = matches!(arg.get_action(), ArgAction::Append);
        if adds {
            adding.insert(flag.clone());
        }
        assert!(adds || matches!(arg.get_action(), ArgAction::Set), "{what}");
        if is_truth(&arg) {
            let words = [vec![flag.clone(), format!("{flag}=false")], beside(&path, id)].concat();
            assert_eq!(
                raw(&mut grammar, &path, &words, id).unwrap_or_else(|e| panic!("{what}: {e}")),
                ["false"],
                "{what}"
            );
            continue;
        }
        let choices: Vec<String> = arg.get_possible_values().iter().map(|one| one.get_name().to_owned()).collect();
        let chosen = choices.first().zip(choices.last());
        let samples = SAMPLES.map(|(one, other)| (one.to_owned(), other.to_owned()));
        let taken = chosen.map(|(one, other)| (one.clone(), other.clone())).into_iter().chain(samples);
        let found = taken.into_iter().find_map(|(one, other)| {
            let words = [vec![flag.clone(), one.clone(), format!("{flag}={other}")], beside(&path, id)].concat();
            raw(&mut grammar, &path, &words, id).ok().map(|found| (found, one, other))
        });
        let (found, one, other) = found.unwrap_or_else(|| panic!("{what}: no sample is taken"));
        assert_eq!(found, if adds { vec![one, other] } else { vec![other] }, "{what}");
    }
    let expected = [
        "--allow-recreate",
        "--annotations",
        "--backup-location-config",
        "--config",
        "--credential",
        "--default-volume-snapshot-locations",
        "--disable-controllers",
        "--existing-resource-policy-override",
        "--label-columns",
        "--labels",
        "--load",
        "--namespace-mappings",
        "--pod-annotations",
        "--pod-labels",
        "--prefer-plugins",
        "--sa-annotations",
        "--snapshot-location-config",
        "--tag",
        "--volume-snapshot-locations",
    ];
    assert_eq!(adding, expected.map(str::to_owned).into());
}

#[test]
fn every_map_merges() {
    for (path, arg) in flags_of_all() {
        if arg.get_value_parser().type_id() == TypeId::of::<KeyValuePairs>() && arg.get_id() != "ordered_resources" {
            assert!(matches!(arg.get_action(), ArgAction::Append), "{path:?} {}", arg.get_id());
        }
    }
}

#[test]
fn every_truth_flag_takes_gos_spellings_and_no_word_of_its_own() {
    let mut grammar = lax();
    for (path, arg) in flags_of_all().into_iter().filter(|(_, arg)| is_truth(arg)) {
        let (id, flag) = (arg.get_id().as_str(), format!("--{}", arg.get_long().unwrap()));
        let mut after = |given: &str| {
            let words = [vec![format!("{flag}{given}")], beside(&path, id)].concat();
            raw(&mut grammar, &path, &words, id).map_err(|e| e.kind())
        };
        let what = format!("velero {} {flag}", path.join(" "));
        assert_eq!(after(""), Ok(vec!["true".to_owned()]), "{what}");
        for text in ["1", "T", "true", "0", "F", "FALSE"] {
            assert_eq!(after(&format!("={text}")), Ok(vec![text.to_owned()]), "{what}={text}");
        }
        assert_eq!(after("=yes"), Err(ErrorKind::ValueValidation), "{what}");
        let unset = match arg.get_value_parser().type_id() == TypeId::of::<Optional<bool>>() {
            true => Ok(vec![String::new()]),
            false => Err(ErrorKind::ValueValidation),
        };
        assert_eq!(after("="), unset, "{what}");
    }
}

#[test]
fn words_are_shared_out_as_pflag_does() {
    let mut grammar = lax();
    let mut raw = |line: &str, id: &str| {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        raw(&mut grammar, &words[..2], &words[2..], id).map_err(|e| e.kind())
    };
    let some = |values: &[&str]| Ok(values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>());
    for (line, id, expected) in [
        ("backup delete --confirm false", "names", some(&["false"])),
        ("backup delete --confirm false", "confirm", some(&["true"])),
        ("backup create -wo yaml b", "output", some(&["yaml"])),
        ("backup create -w=false b", "wait", some(&["false"])),
        ("backup create b --ttl -1h", "ttl", some(&["-1h"])),
        ("backup create b --storage-location --wait", "storage_location", some(&["--wait"])),
        ("backup create b --parallel-files-upload -1", "parallel_files_upload", some(&["-1"])),
        ("backup get -- --wait", "names", some(&["--wait"])),
        ("schedule create s --skip-immediately -o", "skip_immediately", Err(ErrorKind::ValueValidation)),
        ("schedule pause s --skip-immediately true", "skip_immediately", some(&["true"])),
        ("backup create b --selector", "selector", Err(ErrorKind::InvalidValue)),
    ] {
        assert_eq!(raw(line, id), expected, "{line}");
    }
}
