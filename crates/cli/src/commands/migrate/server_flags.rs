//! The arguments of a server, as this version takes them.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser};
use lifeboat_migrate::workload::Flags;
use lifeboat_serve::server::ServerArgs;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::pflag;

/// The arguments of a server, after the word `server`.
#[derive(Debug, Parser)]
#[command(name = "server", no_binary_name = true)]
struct Arguments {
    #[command(flatten)]
    globals: Globals,
    #[command(flatten)]
    server: ServerArgs,
}

impl Arguments {
    fn of(args: &[String]) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&pflag::with_rules(Self::command()).try_get_matches_from(args)?)
    }
}

/// Reads the arguments of a server as the server of this version does.
pub(crate) fn read_flags(args: &[String]) -> Flags {
    let mut flags = Flags::default();
    let Some((_, args)) = args.split_first().filter(|(word, _)| *word == "server") else {
        flags.wrong = Some("its first argument is not `server`".to_owned());
        return flags;
    };
    let mut args: Vec<String> = args.to_vec();
    loop {
        match Arguments::of(&args) {
            Ok(Arguments { globals, server }) => {
                let rules = server.rule_config_maps();
                return Flags {
                    features: globals.features(),
                    policies: rules.policies.map(str::to_owned),
                    modifiers: rules.modifiers.map(str::to_owned),
                    wrong: server.check(&globals).err().map(|why| format!("{why:#}")),
                    without_effect: server.without_effect(&globals).into_iter().map(str::to_owned).collect(),
                    for_movers: server.for_movers().into_iter().map(str::to_owned).collect(),
                    ..flags
                };
            }
            Err(e) => match unknown(&e).and_then(|name| Some((position(&args, &name)?, name))) {
                // The others are looked at without it.
                Some((at, name)) => {
                    args.remove(at);
                    flags.unknown.push(name.trim_start_matches('-').to_owned());
                }
                None => {
                    let text = e.to_string();
                    let line = text.lines().find(|line| !line.is_empty()).unwrap_or_default();
                    flags.wrong = Some(line.trim_start_matches("error: ").to_owned());
                    return flags;
                }
            },
        }
    }
}
/// The flag that the command line does not have.
fn unknown(error: &clap::Error) -> Option<String> {
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) if is_unknown => Some(name.clone()),
        _ => None,
    }
}

fn position(args: &[String], name: &str) -> Option<usize> {
    args.iter().position(|arg| arg.split('=').next() == Some(name.split('=').next().unwrap_or(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::Features;

    fn read(args: &[&str]) -> Flags {
        read_flags(&[&["server"], args].concat().into_iter().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn each_argument_of_the_server_is_looked_at() {
        let flags = read(&[
            "--features=EnableCSI",
            "--uploader-type=kopia",
            "--not-there=1",
            "--keep-latest-maintenance-jobs=5",
            "--max-concurrent-k8s-connections=5",
            "--nor-this",
            "--default-volumes-to-fs-backup",
            "--global-backup-volume-policies-configmap=all",
        ]);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected = Flags {
            features: Features { csi: true, ..Features::default() },
            policies: Some("all".to_owned()),
            modifiers: None,
            without_effect: names(&["max-concurrent-k8s-connections"]),
            for_movers: names(&[]),
            unknown: names(&["not-there", "nor-this"]),
            wrong: None,
        };
        assert_eq!(flags, expected);
    }

    /// By the parser of flags, or by the server when it starts.
    #[test]
    fn a_wrong_value_of_an_argument_is_told() {
        for (arg, why) in [
            ("--default-backup-ttl=soon", "'soon'"),
            ("--uploader-type=restic", "invalid uploader type 'restic', valid types: 'kopia', 'velero-block'"),
            ("--disable-controllers=schedules", "schedules"),
            ("--restore-resource-priorities=a,-,b,-", "--restore-resource-priorities: "),
            ("--plugin-call-timeout=0s", "--plugin-call-timeout 0s: give the calls of plugins some time, such as 10m"),
        ] {
            let wrong = read(&[arg]).wrong.unwrap();
            assert!(wrong.contains(why), "{arg}: {wrong}");
        }
    }
}
