//! The flags of every command.

use crate::flags::{self, Optional};
use crate::output::log::LogArgs;
use crate::process::program::Program;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use lifeboat_api::Duration;
use lifeboat_bucket::PATIENCE;
use lifeboat_client::Client;
use lifeboat_cluster::{Cluster, ConnectOptions, PaceOptions};
use std::path::PathBuf;

/// Flags of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Path to the kubeconfig file; otherwise $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, global = true, default_value = "", value_name = "FILE")]
    pub kubeconfig: Optional<PathBuf>,
    /// The context of the kubeconfig to use; otherwise its current context
    #[arg(long, global = true, default_value = "", value_name = "NAME")]
    kubecontext: String,
    /// The namespace in which Velero's resources live; otherwise that of the client config file, $VELERO_NAMESPACE, or
    /// velero
    // Not an empty one: `--namespace "$NS" --all` must not mean another namespace than the user had in mind.
    #[arg(long = "namespace", short = 'n', global = true, value_parser = NonEmptyStringValueParser::new(), value_name = "NAMESPACE")]
    pub given_namespace: Option<String>,
    /// The namespace in which Velero's resources live, whatever --namespace means; otherwise that of the client config file,
    /// $VELERO_NAMESPACE, or velero
    // It is shown where --namespace may mean another one: in the plugin of kubectl.
    #[arg(long, global = true, hide = true, value_parser = NonEmptyStringValueParser::new(), value_name = "NAMESPACE")]
    lifeboat_namespace: Option<String>,
    /// Names of features, comma-separated. EnableAPIGroupVersions saves and restores objects in all their API versions; any other
    /// name is accepted, as by Velero, and changes nothing in this version
    #[arg(long = "features", id = "features", global = true, value_name = "NAMES")]
    pub features: Option<String>,
    /// Colours in descriptions; when left out on a terminal, unless the client config file switches them off
    #[arg(long, global = true, default_value = "")]
    colorized: Optional<bool>,
    /// Writes a second to the cluster at most; unlimited when 0, then the server's answers set the pace
    #[arg(long, global = true, value_parser = flags::rate, default_value_t = 0.0, value_name = "N")]
    client_qps: f64,
    /// Writes at once after a pause, when --client-qps is set
    #[arg(long, global = true, value_parser = clap::value_parser!(u32).range(1..), default_value_t = 100, value_name = "N")]
    client_burst: u32,
    /// Longest time for one request to the cluster or to a bucket, all attempts together; three minutes when 0
    #[arg(long, global = true, value_parser = flags::duration, default_value = "3m", value_name = "DURATION")]
    request_timeout: Duration,
    /// Flags of the log.
    #[command(flatten)]
    pub log: LogArgs,
    /// The namespace that flag, file and environment lead to.
    #[arg(skip)]
    pub namespace: String,
    /// The name under which the process was started, and its environment.
    #[arg(skip)]
    pub program: Program,
}

impl Globals {
    /// These flags with what the environment adds to them.
    pub fn settled(self, program: Program) -> Self {
        let given = self.lifeboat_namespace.as_deref().or(self.given_namespace.as_deref());
        let namespace = program.namespace(given);
        Self { namespace, program, ..self }
    }

    /// The features that are switched on.
    pub fn features(&self) -> lifeboat_api::Features {
        lifeboat_api::Features::parse(self.features.as_deref().unwrap_or_default())
    }

    /// Returns true if descriptions have colours.
    pub fn colour(&self) -> bool {
        self.program.colour(*self.colorized)
    }

    /// These flags, with no request taking longer than this.
    pub fn with_requests_within(&self, limit: Duration) -> Self {
        let own = Some(self.request_timeout).filter(|own| !own.is_zero());
        Self { request_timeout: own.map_or(limit, |own| own.min(limit)), ..self.clone() }
    }

    /// Longest time for one request, all attempts together.
    pub fn patience(&self) -> std::time::Duration {
        Some(self.request_timeout.to_std()).filter(|own| !own.is_zero()).unwrap_or(PATIENCE)
    }

    /// Connects to the cluster that the flags select.
    ///
    /// # Errors
    /// When there is no usable kubeconfig.
    pub async fn connect(&self) -> anyhow::Result<Cluster> {
        self.connect_with_pages_of(None).await
    }

    /// Connects to the cluster, for the resources of the namespace that the flags select.
    ///
    /// # Errors
    /// When there is no usable kubeconfig.
    pub async fn client(&self) -> anyhow::Result<Client> {
        Ok(Client { cluster: self.connect().await?, namespace: self.namespace.clone() })
    }

    /// Connects to the cluster with so many objects of a page of a list at most, 0 for all at once.
    pub async fn connect_with_pages_of(&self, page_size: Option<u32>) -> anyhow::Result<Cluster> {
        let qps = (self.client_qps > 0.0).then_some(self.client_qps);
        let options = ConnectOptions {
            kubeconfig: self.kubeconfig.0.clone(),
            context: Some(self.kubecontext.clone()).filter(|context| !context.is_empty()),
            user_agent: self.program.user_agent(),
            pace: PaceOptions { qps, burst: self.client_burst, ..PaceOptions::default() },
            request_timeout: Some(self.patience()),
            page_size,
        };
        Ok(Cluster::connect(&options).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_line::TestLine;

    #[test]
    fn global_flags_may_stand_anywhere_and_be_empty() {
        let settled = |line: &str| {
            let globals = TestLine::parsed(line).globals.settled(Program::default());
            (globals.namespace.clone(), globals.kubeconfig.0.clone(), *globals.colorized)
        };
        let file = |name: &str| Some(PathBuf::from(name));
        for (line, expected) in [
            ("version", ("velero".to_owned(), None, None)),
            ("-n a version -n b", ("b".to_owned(), None, None)),
            ("-na version", ("a".to_owned(), None, None)),
            ("version --kubecontext= --kubeconfig=k --kubeconfig=", ("velero".to_owned(), None, None)),
            ("--kubeconfig k version --colorized", ("velero".to_owned(), file("k"), Some(true))),
            ("version --colorized=F", ("velero".to_owned(), None, Some(false))),
            ("version --colorized --colorized=", ("velero".to_owned(), None, None)),
        ] {
            assert_eq!(settled(line), expected, "{line}");
        }
    }

    #[test]
    fn requests_may_be_given_less_time() {
        let limited = |line: &str, limit: &str| {
            let limit = limit.parse().unwrap();
            TestLine::parsed(line).globals.with_requests_within(limit).request_timeout.to_string()
        };
        assert_eq!(limited("version", "5s"), "5s");
        assert_eq!(limited("version --request-timeout 2s", "5s"), "2s");
        assert_eq!(limited("version --request-timeout 0", "5s"), "5s");
    }
}
