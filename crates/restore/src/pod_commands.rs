//! Runs the commands of restored pods (restore.md 3.2), beside the restore of what follows.

use crate::env::Env;
use crate::lock::lock;
use crate::pod_states::{PodState, PodStates, Up};
use lifeboat_hook::{Hook, HookPod, HookTally, Moment, RestoreHook, RestoreHooks, run};
use lifeboat_object::{ObjectKey, Place};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// What the keys of the notes begin with that say in which pods all commands have run; a number follows.
const NOTE: &str = "hooks.";
/// Pods of one note.
const PODS_OF_NOTE: usize = 512;
/// How long a command is tried again that could not be started.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between these attempts.
const PAUSE: Duration = Duration::from_secs(2);

/// The commands that run in the pods of one restore. They end with this value.
pub(crate) struct PodCommands {
    hooks: Arc<RestoreHooks>,
    states: PodStates,
    runner: Arc<Runner>,
    tasks: Mutex<JoinSet<()>>,
}

/// What the commands of all pods are run with.
struct Runner {
    env: Env,
    /// How long a command waits for its container that names no time.
    longest_wait: Duration,
    tally: Mutex<HookTally>,
    /// The pods whose commands have all run, by digest of their keys, in this run or one before it.
    done: tokio::sync::Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// The number of the note that still grows, and the digests in it.
    number: usize,
    open: Vec<String>,
    all: std::collections::HashSet<String>,
}

impl PodCommands {
    /// Of a restore that has run none yet.
    pub(crate) fn new(hooks: Arc<RestoreHooks>, longest_wait: Duration, env: &Env) -> Self {
        let runner =
            Runner { env: env.clone(), longest_wait, tally: Mutex::default(), done: tokio::sync::Mutex::default() };
        Self { hooks, states: PodStates::new(env), runner: Arc::new(runner), tasks: Mutex::default() }
    }

    /// Takes up what an earlier run of this restore has noted.
    pub(crate) async fn load(&self) {
        let records = &self.runner.env.operation.records;
        let mut done = self.runner.done.lock().await;
        let read = async {
            for key in records.keys().await? {
                let Some(number) = key.strip_prefix(NOTE).and_then(|number| number.parse::<usize>().ok()) else {
                    continue;
                };
                let Some(note) = records.read(&key).await? else { continue };
                done.number = done.number.max(number + 1);
                done.all.extend(String::from_utf8_lossy(&note).split_whitespace().map(str::to_owned));
            }
            Ok::<_, lifeboat_operation::RecordsError>(())
        };
        if let Err(e) = read.await {
            let text = format!(
                "it is not known in which pods an earlier run of this restore has run commands, so they may run again: {e}"
            );
            self.runner.env.operation.journal.warn(&Place::Velero, text);
        }
    }

    /// Begins to wait for the containers of a pod that was created, to run its commands. `pod` is as the API server gave it.
    /// Gives whether there is any to run.
    pub(crate) async fn begin(&self, target: &ObjectKey, pod: &Value) -> bool {
        if !is_pod(target) {
            return false;
        }
        let pod = HookPod::of(pod);
        let (hooks, warnings) = self.hooks.commands(&pod);
        for warning in warnings {
            self.runner
                .env
                .operation
                .journal
                .warn(&Place::Namespace(pod.namespace.clone()), format!("pod {}: {warning}", pod.name));
        }
        if hooks.is_empty() || self.runner.done.lock().await.all.contains(&digest(&pod)) {
            return false;
        }
        let name = pod.key().to_string();
        {
            let mut tally = lock(&self.runner.tally);
            hooks.iter().for_each(|hook| tally.due(&name, &hook.hook, Moment::Restored));
        }
        let state = self.states.follow(&pod.namespace, &pod.name);
        let runner = Arc::clone(&self.runner);
        lock(&self.tasks).spawn(async move {
            let whole = Follower { runner: &runner, pod: &pod, began: Instant::now() }.follow(hooks, state).await;
            if whole {
                runner.note_done(&pod).await;
            }
        });
        true
    }

    /// Gives up all commands, of a restore that is begun again: those that are still to run do so then. Gives the counts so far.
    pub(crate) async fn break_off(&self) -> HookTally {
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.shutdown().await;
        lock(&self.runner.tally).clone()
    }

    /// Waits for all commands, and gives their counts.
    pub(crate) async fn end(&self) -> HookTally {
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        if !tasks.is_empty() {
            self.runner
                .env
                .operation
                .journal
                .info("Waiting for the hooks of pods", &[("pods", &tasks.len().to_string())]);
        }
        while tasks.join_next().await.is_some() {}
        lock(&self.runner.tally).clone()
    }
}

impl Runner {
    async fn note_done(&self, pod: &HookPod) {
        let mut done = self.done.lock().await;
        let digest = digest(pod);
        done.all.insert(digest.clone());
        done.open.push(digest);
        let (key, note) = (format!("{NOTE}{}", done.number), done.open.join("\n"));
        if let Err(e) = self.env.operation.records.write(BTreeMap::from([(key, Some(note.into()))])).await {
            let text =
                format!("the hooks of pod {} have run, and that cannot be noted: they may run again: {e}", pod.name);
            self.env.operation.journal.warn(&Place::Namespace(pod.namespace.clone()), text);
        }
        if done.open.len() >= PODS_OF_NOTE {
            done.number += 1;
            done.open.clear();
        }
    }
}

pub(crate) fn is_pod(key: &ObjectKey) -> bool {
    key.resource.group.is_empty() && key.resource.resource == "pods"
}

/// The pod of this key and UID, in 32 letters.
fn digest(pod: &HookPod) -> String {
    let key = ObjectKey { name: format!("{} {}", pod.name, pod.uid), ..pod.key() };
    hex::encode(key.digest())
}

/// Waits for the containers of one pod.
struct Follower<'a> {
    runner: &'a Runner,
    pod: &'a HookPod,
    began: Instant,
}

/// Why commands of a pod do not run any more.
enum Over {
    /// This happened to the pod or to the restore.
    Because(&'static str),
    /// A command failed, and the failure counts for the whole pod.
    Failed,
}

impl Follower<'_> {
    /// Runs the commands of each container when it is up. Gives whether a run again has nothing to do here.
    async fn follow(&self, hooks: Vec<RestoreHook>, mut state: watch::Receiver<PodState>) -> bool {
        let mut waiting = self.with_container(by_container(self.pod, hooks));
        let cancel = &self.runner.env.operation.cancel;
        let over = loop {
            if waiting.is_empty() {
                return true;
            }
            let now = state.borrow_and_update().clone();
            let is_over = match &now {
                PodState::Gone => Some("the pod was deleted"),
                PodState::There { uid, .. } if *uid != self.pod.uid => {
                    Some("the pod was deleted, and another one has its name")
                }
                PodState::There { is_over: true, .. } => Some("the pod has ended"),
                PodState::There { .. } | PodState::Unknown => None,
            };
            if let Some(why) = is_over {
                break Over::Because(why);
            }
            match self.run_those_up(&mut waiting, &now).await {
                Ok(()) => {}
                Err(over) => break over,
            }
            if waiting.is_empty() {
                return true;
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => break Over::Because("the restore was cancelled"),
                changed = state.changed() => if changed.is_err() {
                    break Over::Because("the pods of its namespace are not watched any more");
                },
                () = sleep_until(self.next_expiry(&waiting)) => self.expire(&mut waiting),
            }
        };
        let is_cancelled = matches!(over, Over::Because(_)) && cancel.is_cancelled();
        let why = match over {
            Over::Because(why) => why,
            Over::Failed => "a command before it failed",
        };
        for (container, hooks) in waiting {
            for hook in hooks {
                self.tell(&hook.hook, &format!("not executed: {why}"), &container);
            }
        }
        !is_cancelled
    }

    /// Those whose container the pod has. The others can never run, which is said at once.
    fn with_container(&self, waiting: Containers) -> Containers {
        let (there, missing) = waiting.into_iter().partition(|(container, _)| self.pod.containers.contains(container));
        for (container, hooks) in Containers::into_iter(missing) {
            for hook in hooks {
                let has = self.pod.containers.join(", ");
                self.tell(
                    &hook.hook,
                    &format!("not executed: there is no such container, the pod has {has}"),
                    &container,
                );
            }
        }
        there
    }

    async fn run_those_up(&self, waiting: &mut Containers, state: &PodState) -> Result<(), Over> {
        let PodState::There { containers, .. } = state else { return Ok(()) };
        for (container, hooks) in waiting.iter_mut() {
            if !is_up(containers.get(container).copied().unwrap_or_default(), hooks) {
                continue;
            }
            while !hooks.is_empty() {
                let hook = hooks.remove(0);
                let Err(error) = self.run(&hook.hook).await else { continue };
                self.tell(&hook.hook, &format!("failed to execute, err: {error}"), container);
                if hook.hook.fails_pod {
                    return Err(Over::Failed);
                }
            }
        }
        waiting.retain(|(_, hooks)| !hooks.is_empty());
        Ok(())
    }

    async fn run(&self, hook: &Hook) -> Result<(), String> {
        let operation = &self.runner.env.operation;
        let end = Instant::now() + PATIENCE;
        loop {
            (operation.fence)()?;
            let ran = tokio::select! {
                () = operation.cancel.cancelled() => return Err("the restore was cancelled while it ran".to_owned()),
                ran = run(hook, self.pod, Moment::Restored, &self.runner.env.cluster, &operation.journal) => ran,
            };
            match ran {
                Err(error) if error.was_not_started() && error.can_pass() && Instant::now() < end => sleep(PAUSE).await,
                ran => return ran.map_err(|error| error.to_string()),
            }
        }
    }

    /// Until when a command waits for its container.
    fn expiry(&self, hook: &RestoreHook) -> Instant {
        self.began + hook.wait_timeout.map_or(self.runner.longest_wait, lifeboat_api::Duration::to_std)
    }

    fn next_expiry(&self, waiting: &Containers) -> Instant {
        let all = waiting.iter().flat_map(|(_, hooks)| hooks).map(|hook| self.expiry(hook));
        all.min().unwrap_or(self.began + self.runner.longest_wait)
    }

    /// Gives up the commands that have waited long enough; with one whose failure counts for the whole pod, all of them.
    fn expire(&self, waiting: &mut Containers) {
        let now = Instant::now();
        let mut fails_pod = false;
        for (container, hooks) in waiting.iter_mut() {
            hooks.retain(|hook| {
                let is_late = self.expiry(hook) <= now;
                if is_late {
                    fails_pod |= hook.hook.fails_pod;
                    self.tell(&hook.hook, "expired before executing", container);
                }
                !is_late
            });
        }
        if fails_pod {
            for (container, hooks) in waiting.iter_mut() {
                for hook in hooks.drain(..) {
                    self.tell(&hook.hook, "not executed: a command before it failed", container);
                }
            }
        }
        waiting.retain(|(_, hooks)| !hooks.is_empty());
    }

    /// Puts the failure of a hook into the results.
    fn tell(&self, hook: &Hook, what: &str, container: &str) {
        let (namespace, name) = (&self.pod.namespace, &self.pod.name);
        lock(&self.runner.tally).failed(&self.pod.key().to_string(), hook, Moment::Restored);
        let text = format!("hook {} in container {container} in pod {namespace}/{name} {what}", hook.name);
        self.runner.env.operation.journal.error(&Place::Namespace(namespace.clone()), text);
    }
}

/// The commands that wait, by container, in the order in which the containers come among the hooks.
type Containers = Vec<(String, Vec<RestoreHook>)>;

fn by_container(pod: &HookPod, hooks: Vec<RestoreHook>) -> Containers {
    let first = pod.containers.first().cloned().unwrap_or_default();
    let mut all = Containers::new();
    for hook in hooks {
        let container = if hook.hook.container.is_empty() { first.clone() } else { hook.hook.container.clone() };
        match all.iter_mut().find(|(known, _)| *known == container) {
            Some((_, hooks)) => hooks.push(hook),
            None => all.push((container, vec![hook])),
        }
    }
    all
}

/// Whether the commands of a container can run: when one of them waits until it is ready, all do.
fn is_up(up: Up, hooks: &[RestoreHook]) -> bool {
    if hooks.iter().any(|hook| hook.waits_for_ready) { up.is_ready } else { up.is_running }
}

#[cfg(test)]
mod tests;
