//! The template of a bug report.

use lifeboat_terminal::process::program::{COMMIT, VERSION};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Fills the template of a bug report with the facts that are known already.
pub fn report(program: &str, features: &str, cluster: &str) -> String {
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let features = if features.is_empty() { "<NOT SET>" } else { features };
    format!(
        "**What steps did you take and what happened:**\n\n\n\
         **What did you expect to happen:**\n\n\n\
         **The output of this command will help us to understand what is going on:**\n\
         `{program} debug --backup <backup> --restore <restore>`: attach the file that it writes. Secrets are removed from it; look \
         through it before you send it.\n\n\
         **Environment:**\n\n\
         - Version (`{program} version`): {VERSION}, commit {COMMIT}\n\
         - Features (`{program} client config get features`): {features}\n\
         - This program runs on: {system}/{machine}\n\
         - Kubernetes version: {cluster}\n\
         - Kubernetes installer and version:\n\
         - Cloud provider or hardware:\n\
         - Storage (CSI driver, object store):\n"
    )
}

/// The URL of a new report in a tracker, with its text.
pub fn url(tracker: &str, body: &str) -> String {
    let between = if tracker.contains('?') { '&' } else { '?' };
    format!("{tracker}{between}body={}", utf8_percent_encode(body, NON_ALPHANUMERIC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_versions_and_a_url_takes_it_whole() {
        let text = report("velero", "", "v1.34.4");
        assert!(text.contains(&format!("(`velero version`): {VERSION}, commit {COMMIT}\n")), "{text}");
        assert!(text.contains("get features`): <NOT SET>\n"), "{text}");
        assert!(text.contains("Kubernetes version: v1.34.4\n"), "{text}");
        let url = url("https://tracker.example/new?labels=bug", "a b&c\n");
        assert_eq!(url, "https://tracker.example/new?labels=bug&body=a%20b%26c%0A");
    }
}
