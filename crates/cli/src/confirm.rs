//! Asks before what cannot be undone: the question names what goes, and where.

use lifeboat_client::Client;
use std::io::Write;

/// How many names a question has.
const MOST_NAMES: usize = 3;

/// Where something is about to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The namespace of the resources.
    pub(crate) namespace: &'a str,
    /// The URL of the API server.
    pub(crate) url: &'a str,
    /// The context of the kubeconfig; `None` where the service account of a pod is used.
    pub(crate) context: Option<&'a str>,
}

impl<'a> Place<'a> {
    /// The place that a client works on.
    pub(crate) fn of(client: &'a Client) -> Self {
        Self { namespace: &client.namespace, url: client.cluster.url(), context: client.cluster.context() }
    }
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "namespace {} of cluster {}", self.namespace, self.url.trim_end_matches('/'))?;
        self.context.map_or(Ok(()), |context| write!(f, " (context {context})"))
    }
}

/// The question whether the objects of these names are to be deleted.
pub(crate) fn deletion(kind: &str, names: &[&str], place: Place<'_>) -> String {
    let count = names.len();
    let plural = if count == 1 { "" } else { "s" };
    let shown = names.iter().take(MOST_NAMES).copied().collect::<Vec<_>>().join(", ");
    let more = match count.saturating_sub(MOST_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("Delete {count} {} in {place}: {shown}{more}?", format_args!("{}{plural}", noun(kind)))
}

/// A kind as people call it.
fn noun(kind: &str) -> String {
    match kind {
        "BackupStorageLocation" => "storage location".to_owned(),
        other => other.to_lowercase(),
    }
}

/// Asks until there is an answer; the end of the input is a no.
pub(crate) fn confirmed() -> anyhow::Result<bool> {
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
        let prod = Place { namespace: "velero", url: "https://prod.example.com:6443/", context: Some("prod") };
        let pod = Place { namespace: "dr", url: "https://10.0.0.1", context: None };
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
            assert_eq!(deletion(kind, names, place), expected);
        }
    }
}
