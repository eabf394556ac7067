//! The run of a server: what it needs is opened, then it serves until it is told to stop.

use super::ServerArgs;
use super::credentials::CredentialFiles;
use super::explain;
use super::plugins::Plugins;
use super::providers::StorageProviders;
use crate::listen::listen;
use crate::logrus;
use anyhow::{Context, Result, bail};
use lifeboat_backup::check_policies;
use lifeboat_client::Client;
use lifeboat_control::{
    Env, Extensions, Listeners, OwnPod, ProfileListener, RandomSource, ServerClock, ServerProcess, SigningKey,
    own_image, serve,
};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::clock::clock;
use lifeboat_terminal::process::random::random;
use lifeboat_terminal::process::signals::terminated;
use lifeboat_terminal::process::traces::Traces;
use std::process::ExitCode;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl ServerArgs {
    /// Serves until it is told to stop, or explains once.
    ///
    /// # Errors
    /// Flags that are wrong, addresses that are taken, a cluster that cannot be reached, a Lease that was lost.
    pub async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if self.explain {
            return self.explain(globals).await;
        }
        if self.output.is_some() {
            bail!("--output says how an explanation is printed: use it with --explain, or leave it out");
        }
        let (traces, warning) = Traces::prepare(&globals.program.traces, self.otlp_endpoint.as_deref(), true);
        logrus::start(self.log_level, self.log_format, &traces);
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        let ended = Box::pin(self.serve(globals)).await;
        tokio::task::block_in_place(|| traces.end());
        ended
    }

    async fn serve(self, globals: &Globals) -> Result<ExitCode> {
        self.check(globals)?;
        if self.restore_only {
            tracing::warn!("--restore-only is deprecated: make the storage locations read-only instead");
        }
        for flag in self.without_effect(globals) {
            tracing::warn!(flag, "this flag has no effect in this version");
        }
        let cluster = globals.connect_with_pages_of(Some(self.client_page_size)).await?;
        let pod = cluster.token_file().and_then(OwnPod::of_token_file);
        let mut options = self.options(globals, self.identity(pod.as_ref())?)?;
        if let Some(pod) = &pod {
            let image = own_image(pod, &options.namespace, &cluster).await.unwrap_or_default();
            options.backup.movers.image.clone_from(&image);
            options.restore.movers.image = image;
        }
        check_policies(&options.namespace, &options.backup.global_volume_policies, &cluster)
            .await
            .map_err(|why| anyhow::anyhow!("--global-backup-volume-policies-configmap: {why}"))?;
        let providers = StorageProviders::new(self.directory_root.as_deref(), globals.patience())?;
        let credentials = CredentialFiles::new(std::env::temp_dir().join("credentials"));
        let plugins = Arc::new(Plugins::discover(self.search()?, credentials).await?);
        let cancel = CancellationToken::new();
        let env = Env {
            cluster,
            providers: Arc::new(providers.with_plugins(Arc::clone(&plugins))),
            extensions: Arc::clone(&plugins) as Arc<dyn Extensions>,
            clock: ServerClock(clock()),
            process: ServerProcess { pod, instance: uuid::Uuid::new_v4().to_string(), signing_key: signing_key() },
            random: RandomSource(random()),
            scratch: self.scratch.clone().unwrap_or_else(std::env::temp_dir),
            cancel: cancel.clone(),
        };
        let terminate = terminated()?;
        let listeners = Listeners {
            status: listen("--metrics-address", &self.metrics_address).await?,
            downloads: listen("--download-address", &self.download_address).await?,
            profiles: self.profiles().await,
        };
        let serving = serve(options, env, listeners, self.lease_duration);
        let mut serving = std::pin::pin!(serving);
        let ended = tokio::select! {
            ended = &mut serving => ended,
            () = terminate => {
                tracing::info!("told to stop: what is in progress is left to the next server");
                cancel.cancel();
                serving.await
            }
        };
        plugins.shut_down().await;
        ended?;
        Ok(ExitCode::SUCCESS)
    }

    /// Where profiles are served. compat: a server runs without them where it cannot listen.
    async fn profiles(&self) -> Option<ProfileListener> {
        match listen("--profiler-address", &self.profiler_address).await {
            Ok(listener) => {
                let command_line = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
                listener.map(|listener| ProfileListener { listener, command_line })
            }
            Err(e) => {
                tracing::warn!("profiles are not served: {e:#}");
                None
            }
        }
    }

    async fn explain(self, globals: &Globals) -> Result<ExitCode> {
        self.check(globals)?;
        let options = self.options(globals, self.identity.clone().unwrap_or_default())?;
        let client = Client { cluster: globals.connect().await?, namespace: globals.namespace.clone() };
        explain::tell(&client, &options, ServerClock(clock()), self.output).await?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the name of this server: the one from the flag, else the pod that its token names, else the host.
    fn identity(&self, pod: Option<&OwnPod>) -> Result<String> {
        match (self.identity.as_ref().filter(|said| !said.is_empty()), pod) {
            (Some(said), _) => Ok(said.clone()),
            (None, Some(pod)) => Ok(pod.name.clone()),
            (None, None) => host_name(),
        }
    }
}

fn signing_key() -> SigningKey {
    let mut key = [0; 32];
    random()(&mut key);
    SigningKey(key)
}

/// The host name. In a pod it is the pod's name, unless the pod is on its node's network or the name is longer than 63
/// characters.
fn host_name() -> Result<String> {
    let name =
        std::fs::read_to_string("/proc/sys/kernel/hostname").context("find out the host name; or give --identity")?;
    Ok(name.trim().to_owned())
}
