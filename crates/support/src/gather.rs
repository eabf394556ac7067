//! Gathers the contents of a bundle. A part that cannot be read is noted in the bundle, and the others are still
//! gathered.

use super::bundle::{Bundle, Part};
use super::clean::{clean, clean_line};
use super::lines::CleanLines;
use anyhow::{Context, Result, bail};
use lifeboat_api::{Backup, DownloadTargetKind, GROUP, Restore};
use lifeboat_client::Client;
use lifeboat_cluster::{ListRequest, PodLogRequest};
use lifeboat_object::ApiResource;
use lifeboat_requests::artifact::{Downloads, artifact};
use lifeboat_requests::describe::{backup_page, restore_page};
use lifeboat_requests::trust::TrustArgs;
use lifeboat_requests::version::{PATIENCE as VERSION_PATIENCE, versions_with_server};
use lifeboat_terminal::flags::globals::Globals;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::time::Duration;

/// The newest lines of each container's log that are taken.
const MOST_LINES: u32 = 200_000;
/// Bytes of the objects of one type at most.
const MOST_BYTES: u64 = 256 << 20;
/// Longest wait for one file of a backup or restore.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where Velero's bundles have what comes from the cluster.
const CAPTURED: &str = "kubecapture";
/// Types about the server besides Velero's own resources: group, version, plural and kind.
const BESIDE: [(&str, &str, &str, &str); 4] = [
    ("", "v1", "pods", "Pod"),
    ("", "v1", "events", "Event"),
    ("apps", "v1", "deployments", "Deployment"),
    ("apps", "v1", "daemonsets", "DaemonSet"),
];

/// A bundle and what goes into it.
pub struct Gathering<'a> {
    client: &'a Client,
    globals: &'a Globals,
    bundle: Bundle,
    verbose: bool,
    gaps: Vec<String>,
}

impl<'a> Gathering<'a> {
    /// Begins with an empty bundle. With `verbose`, each file of it is printed.
    pub fn new(client: &'a Client, globals: &'a Globals, bundle: Bundle, verbose: bool) -> Self {
        Self { client, globals, bundle, verbose, gaps: Vec::new() }
    }

    /// Everything; of a backup and a restore only when they are named.
    ///
    /// # Errors
    /// When the bundle cannot be written.
    pub async fn all(&mut self, backup: &str, restore: &str) -> Result<()> {
        let namespace = &self.client.namespace;
        say(&format!("Collecting velero resources in namespace: {namespace}"))?;
        let pods = self.resources().await?;
        let version = versions_with_server(self.globals, VERSION_PATIENCE).await;
        self.put_text("version.txt", Ok(version))?;
        say(&format!("Collecting velero deployment logs in namespace: {namespace}"))?;
        self.pod_logs(pods).await?;
        if !backup.is_empty() {
            say(&format!("Collecting log for backup: {backup}"))?;
            let page = Box::pin(backup_page(self.client, self.globals, backup)).await;
            self.put_text(&format!("backup_describe_{backup}.txt"), page)?;
            let log = self.log(DownloadTargetKind::BackupLog, backup).await;
            self.put(&format!("backup_{backup}.log"), log)?;
        }
        if !restore.is_empty() {
            say(&format!("Collecting log for restore: {restore}"))?;
            let page = Box::pin(restore_page(self.client, self.globals, restore)).await;
            self.put_text(&format!("restore_describe_{restore}.txt"), page)?;
            let log = self.log(DownloadTargetKind::RestoreLog, restore).await;
            self.put(&format!("restore_{restore}.log"), log)?;
        }
        Ok(())
    }

    /// Ends the bundle; gives the number of parts that could not be had.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<usize> {
        if !self.gaps.is_empty() {
            let text: String = self.gaps.iter().map(|gap| format!("{gap}\n")).collect();
            self.bundle.add_text("missing.txt", &text)?;
        }
        self.bundle.finish()?;
        Ok(self.gaps.len())
    }

    /// Gathers all objects, each type in a file of its own; returns the pods among them.
    async fn resources(&mut self) -> Result<Vec<PodContainers>> {
        let mut pods = Vec::new();
        let mut types: Vec<Arc<ApiResource>> = Vec::new();
        match self.client.cluster.discover().await {
            Ok(catalog) => types.extend(
                catalog.all().filter(|t| t.group == GROUP && t.namespaced && t.preferred && t.can("list")).cloned(),
            ),
            Err(e) => self.miss("the types of velero.io", &e.into())?,
        }
        types.extend(
            BESIDE.map(|(group, version, plural, kind)| Arc::new(ApiResource::new(group, version, plural, kind))),
        );
        for resource in types {
            let group = if resource.group.is_empty() { "core" } else { &resource.group };
            let (version, namespace) = (&resource.version, &self.client.namespace);
            let name = format!("{CAPTURED}/{group}_{version}/{namespace}/{}.json", resource.resource);
            let is_of_pods = resource.group.is_empty() && resource.resource == "pods";
            let listed =
                self.listed(&resource, |object| pods.extend(is_of_pods.then(|| PodContainers::of(object)))).await;
            if is_of_pods && let Err(e) = &listed {
                self.miss("the logs of pods that were not listed", &anyhow::anyhow!("{e:#}"))?;
            }
            self.put(&name, listed)?;
        }
        Ok(pods)
    }

    /// The objects of a type, one line each within a list; `see` is shown each before anything is taken out of it.
    async fn listed(&self, resource: &Arc<ApiResource>, mut see: impl FnMut(&Value)) -> Result<Part> {
        let mut part = Part::new()?;
        let api_version = resource.api_version();
        write!(part, "{{\"apiVersion\":\"{api_version}\",\"kind\":\"{}List\",\"items\":[", resource.kind)?;
        let mut list = self
            .client
            .cluster
            .list(ListRequest::all(Arc::clone(resource)).in_namespace(self.client.namespace.clone()));
        let mut between = "\n";
        while let Some(bodies) = list.next().await? {
            for body in bodies {
                let object: Value = serde_json::from_slice(&body).context("read an object")?;
                see(&object);
                write!(part, "{between}{}", clean(object))?;
                between = ",\n";
                if part.bytes > MOST_BYTES {
                    bail!("its objects take more than {MOST_BYTES} bytes");
                }
            }
        }
        writeln!(part, "\n]}}")?;
        Ok(part)
    }

    async fn pod_logs(&mut self, pods: Vec<PodContainers>) -> Result<()> {
        for PodContainers { pod, containers } in pods {
            for ContainerRuns { name, has_run_before } in containers {
                for previous in [false, true].into_iter().filter(|previous| !previous || has_run_before) {
                    let which = if previous { "-previous" } else { "" };
                    let file = format!("{CAPTURED}/core_v1/{}/{pod}/{name}{which}.log", self.client.namespace);
                    let log = self.pod_log(&pod, &name, previous).await;
                    self.put(&file, log)?;
                }
            }
        }
        Ok(())
    }

    async fn pod_log(&self, pod: &str, container: &str, previous: bool) -> Result<Part> {
        let namespace = &self.client.namespace;
        let request = PodLogRequest { namespace, pod, container, previous, newest_lines: MOST_LINES };
        let mut log = self.client.cluster.pod_log(request).await?.context("the pod was deleted just now")?;
        let mut lines = CleanLines::new(Part::new()?);
        while let Some(piece) = log.next().await? {
            if !lines.write(&piece)? {
                break;
            }
        }
        lines.finish()
    }

    /// The log of a backup or restore.
    async fn log(&self, kind: DownloadTargetKind, name: &str) -> Result<Part> {
        let of = match kind {
            DownloadTargetKind::RestoreLog => {
                self.client.get::<Restore>(name).await?.map(|restore| restore.spec.backup_name)
            }
            _ => self.client.get::<Backup>(name).await?.map(|backup| backup.metadata.name),
        };
        let of = of.context("it was deleted just now")?;
        let (downloads, _) = Downloads::new(self.client, self.globals, &TrustArgs::default(), &of, PATIENCE).await?;
        let log = artifact(&downloads, kind, name).await?.context("it is not in its storage location")?;
        let (mut lines, mut reader) = (CleanLines::new(Part::new()?), BufReader::new(log.reader()));
        loop {
            let piece = reader.fill_buf()?;
            let length = piece.len();
            if length == 0 || !lines.write(piece)? {
                return lines.finish();
            }
            reader.consume(length);
        }
    }

    fn put(&mut self, name: &str, part: Result<Part>) -> Result<()> {
        match part {
            Ok(part) => {
                self.tell(name)?;
                self.bundle.add(name, part)
            }
            Err(e) => self.miss(name, &e),
        }
    }

    fn put_text(&mut self, name: &str, text: Result<String>) -> Result<()> {
        match text {
            Ok(text) => {
                self.tell(name)?;
                self.bundle.add_text(name, &text.lines().map(|line| clean_line(line) + "\n").collect::<String>())
            }
            Err(e) => self.miss(name, &e),
        }
    }

    fn miss(&mut self, what: &str, why: &anyhow::Error) -> Result<()> {
        let gap = format!("{what}: {why:#}");
        writeln!(std::io::stderr(), "WARNING: not in the bundle: {gap}")?;
        self.gaps.push(gap);
        Ok(())
    }

    fn tell(&self, name: &str) -> Result<()> {
        if self.verbose {
            writeln!(std::io::stderr(), "{name}")?;
        }
        Ok(())
    }
}

fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}

/// A pod and its containers that have run.
#[derive(Debug, PartialEq, Eq)]
struct PodContainers {
    pod: String,
    containers: Vec<ContainerRuns>,
}

/// A container that has run.
#[derive(Debug, PartialEq, Eq)]
struct ContainerRuns {
    name: String,
    /// True when this is not its first run, so that there is a log of the run before.
    has_run_before: bool,
}

impl PodContainers {
    fn of(pod: &Value) -> Self {
        let kinds = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
        let all = kinds.iter().flat_map(|kind| pod["status"][*kind].as_array().into_iter().flatten());
        let runs = all.map(|status| (status, status["restartCount"].as_u64() > Some(0)));
        let has_run = |(status, again): &(&Value, bool)| *again || status["state"].get("waiting").is_none();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let containers = runs
            .filter(has_run)
            .map(|(status, has_run_before)| ContainerRuns { name: text(&status["name"]), has_run_before })
            .collect();
        Self { pod: text(&pod["metadata"]["name"]), containers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn containers_that_have_not_run_have_no_log() {
        let pod = json!({"metadata": {"name": "p"}, "status": {
            "initContainerStatuses": [{"name": "plugin", "restartCount": 0, "state": {"terminated": {}}}],
            "containerStatuses": [
                {"name": "server", "restartCount": 2, "state": {"waiting": {}}},
                {"name": "late", "restartCount": 0, "state": {"waiting": {}}}
            ]
        }});
        let runs = |name: &str, has_run_before| ContainerRuns { name: name.to_owned(), has_run_before };
        let expected =
            PodContainers { pod: "p".to_owned(), containers: vec![runs("plugin", false), runs("server", true)] };
        assert_eq!(PodContainers::of(&pod), expected);
    }
}
