//! Asks for confirmation before an action that cannot be undone: the question names the objects that are lost, and
//! their place.

use anyhow::{Result, bail};
use lifeboat_client::Client;
use lifeboat_object::first_names_of;
use std::io::{IsTerminal, Write};

/// Most names in a question.
const MOST_NAMES: usize = 3;

/// Where something is about to be done.
#[derive(Clone, Copy, Debug)]
pub struct ConfirmationTarget<'a> {
    /// The namespace of the resources.
    pub namespace: &'a str,
    /// The URL of the API server.
    pub url: &'a str,
    /// The context of the kubeconfig; `None` where the service account of a pod is used.
    pub context: Option<&'a str>,
}

impl<'a> ConfirmationTarget<'a> {
    /// The place that a client works on.
    pub fn of(client: &'a Client) -> Self {
        Self { namespace: &client.namespace, url: client.cluster.url(), context: client.cluster.context() }
    }
}

impl std::fmt::Display for ConfirmationTarget<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "namespace {} of cluster {}", self.namespace, self.url.trim_end_matches('/'))?;
        self.context.map_or(Ok(()), |context| write!(f, " (context {context})"))
    }
}

/// The question whether this is to be done with the objects of these names: `Delete`, or another verb.
pub fn question(verb: &str, kind: &str, names: &[&str], place: ConfirmationTarget<'_>) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("{verb} {} {}{plural} in {place}: {}?", names.len(), noun(kind), first_names_of(names, MOST_NAMES))
}

/// A kind as people call it.
fn noun(kind: &str) -> String {
    match kind {
        "BackupStorageLocation" => "storage location".to_owned(),
        other => other.to_lowercase(),
    }
}

/// Asks this question, unless the answer was given before. The answer may come from a pipe; the end of the input is a no.
pub fn asked(question: &str, is_answered: bool) -> Result<bool> {
    if is_answered {
        return Ok(true);
    }
    if !question.is_empty() {
        writeln!(std::io::stdout(), "{question}")?;
    }
    answer()
}

/// Refuses a command whose question only a person may answer, where there is no terminal to ask at.
///
/// # Errors
/// This refusal.
pub fn refuse_without_terminal(is_answered: bool, refusal: impl FnOnce() -> String) -> Result<()> {
    if is_answered || std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        return Ok(());
    }
    bail!(refusal())
}

/// Says that nothing was done, because this flag asks before, and nobody is there.
pub fn nobody_to_ask(done: &str, flag: &str, place: ConfirmationTarget<'_>) -> String {
    format!("nothing was {done} in {place}: {flag} asks before, and there is no terminal to ask at; add --confirm")
}

/// Reads answers until one is clear.
fn answer() -> Result<bool> {
    let (mut out, input) = (std::io::stdout(), std::io::stdin());
    loop {
        write!(out, "Are you sure you want to continue (Y/N)? ")?;
        out.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            writeln!(std::io::stderr(), "error reading user input: EOF")?;
            return Ok(false);
        }
        match line.trim_end_matches(['\r', '\n']) {
            "y" | "Y" => return Ok(true),
            "n" | "N" => return Ok(false),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_sees_what_goes_and_of_which_cluster() {
        let prod =
            ConfirmationTarget { namespace: "velero", url: "https://prod.example.com:6443/", context: Some("prod") };
        let pod = ConfirmationTarget { namespace: "dr", url: "https://10.0.0.1", context: None };
        for (kind, names, place, expected) in [
            (
                "Backup",
                &["a", "b", "c", "d", "e"][..],
                prod,
                "Delete 5 backups in namespace velero of cluster https://prod.example.com:6443 (context prod): a, b, c and 2 more?",
            ),
            (
                "Restore",
                &["a"],
                prod,
                "Delete 1 restore in namespace velero of cluster https://prod.example.com:6443 (context prod): a?",
            ),
            (
                "BackupStorageLocation",
                &["a", "b", "c"],
                pod,
                "Delete 3 storage locations in namespace dr of cluster https://10.0.0.1: a, b, c?",
            ),
        ] {
            assert_eq!(question("Delete", kind, names, place), expected);
        }
    }
}
