//! Makes the grammar take what pflag takes, the flag library of Velero (spf13/pflag): applied to all commands
//! at once, so that no flag can be forgotten.
//!
//! A flag that is given again takes the last value; those whose occurrences add up are `Vec`s of
//! [`KeyValuePairs`](crate::flags::KeyValuePairs) or [`List`](crate::flags::List). A truth value is given as `--flag` or
//! `--flag=VALUE`, never as a word of its own. Any other value may begin with a dash. A line that ends at a command that
//! only holds others is not refused: it asks for help ([`asks_for_help`]).

use crate::flags::{self, Optional};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::any::TypeId;

/// The command and all below it, with pflag's rules.
pub fn with_rules(command: Command) -> Command {
    nested(command.args_override_self(true))
}

fn nested(command: Command) -> Command {
    let command = command.mut_args(flag).mut_subcommands(nested);
    if command.has_subcommands() { command.subcommand_required(false).arg_required_else_help(false) } else { command }
}

fn flag(arg: Arg) -> Arg {
    if arg.is_positional() {
        return arg;
    }
    let kind = arg.get_value_parser().type_id();
    let arg = if kind == TypeId::of::<bool>() {
        truth(arg).value_parser(flags::boolean)
    } else if kind == TypeId::of::<Optional<bool>>() {
        truth(arg)
    } else {
        arg.allow_hyphen_values(true)
    };
    let says_nothing = matches!(arg.get_default_values(), [value] if value.is_empty() || value == "false");
    if says_nothing { arg.hide_default_value(true) } else { arg }
}

fn truth(arg: Arg) -> Arg {
    let arg = match arg.get_action() {
        ArgAction::SetTrue => arg.action(ArgAction::Set).default_value("false"),
        _ => arg,
    };
    arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL")
}

/// The command and all below it, with every flag in its help.
pub fn with_hidden_flags(command: Command) -> Command {
    command.mut_args(|arg| arg.hide(false)).mut_subcommands(with_hidden_flags)
}

/// The path of a command that only holds others, when the line ends there.
pub fn asks_for_help(grammar: &Command, matches: &ArgMatches) -> Option<Vec<String>> {
    let (mut command, mut matches, mut path) = (grammar, matches, Vec::new());
    while let Some((name, below)) = matches.subcommand() {
        command = command.find_subcommand(name)?;
        matches = below;
        path.push(name.to_owned());
    }
    // One that takes a name does something by itself.
    let holds_others_alone = command.has_subcommands() && command.get_positionals().next().is_none();
    holds_others_alone.then_some(path)
}
