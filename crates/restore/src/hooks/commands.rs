//! Runs the commands of restored pods (velero: internal/hook), beside the restore of what follows.

use crate::hooks::notes::{CommandFailure, CommandProgress, Noted};
use crate::hooks::states::{ContainerReadiness, PodState, PodStates};
use crate::state::env::Env;
use crate::state::lock::lock;
use lifeboat_hook::{Hook, HookPod, HookTally, Moment, RestoreHook, RestoreHooks, run};
use lifeboat_object::{ObjectKey, ResultScope};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Longest time for commands to notice that the restore breaks off.
const BREAKING_OFF: Duration = Duration::from_secs(5);
/// Time for retries of a command that could not be started.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between these attempts.
const PAUSE: Duration = Duration::from_secs(2);
/// Commands that run at once, and pods that are read at once.
const MOST_AT_ONCE: usize = 32;
/// Reasons why a restore runs no more commands.
const CANCELLED: &str = "the restore was cancelled";
const BROKE_OFF: &str = "the restore broke off";

/// The commands that run in the pods of one restore. They end with this value.
pub(crate) struct PodCommands {
    hooks: Arc<RestoreHooks>,
    states: Arc<PodStates>,
    runner: Arc<Runner>,
    tasks: Mutex<JoinSet<()>>,
}

/// Shared context in which the commands of all pods run.
struct Runner {
    env: Env,
    /// Longest wait of a command for its container, where its hook sets no time.
    longest_wait: Duration,
    tally: Mutex<HookTally>,
    /// In which pods commands have run, in this run or one before it.
    noted: Noted,
    /// Set when the restore breaks off.
    given_up: CancellationToken,
    /// Places of pods that are read.
    reads: Semaphore,
    /// Places of commands that run.
    runs: Semaphore,
}

impl PodCommands {
    /// Of a restore that has run none yet.
    pub(crate) fn new(hooks: Arc<RestoreHooks>, longest_wait: Duration, env: &Env) -> Self {
        let runner = Runner {
            env: env.clone(),
            longest_wait,
            tally: Mutex::default(),
            noted: Noted::new(&env.operation),
            given_up: CancellationToken::new(),
            reads: Semaphore::new(MOST_AT_ONCE),
            runs: Semaphore::new(MOST_AT_ONCE),
        };
        let states = Arc::new(PodStates::new(env));
        Self { hooks, states, runner: Arc::new(runner), tasks: Mutex::default() }
    }

    /// Loads the notes that an earlier run of this restore has made.
    pub(crate) async fn load(&self) {
        if let Err(e) = self.runner.noted.load().await {
            let text = format!(
                "it is not known in which pods an earlier run of this restore has run commands, so they may run again: {e}"
            );
            self.runner.env.operation.journal.warn(&ResultScope::Velero, text);
        }
    }

    /// Begins to wait for the containers of a pod that was created, to run its commands. `in_cluster` is the answer of
    /// the API server. Returns true if there are any to run. The counts and failures of commands that an earlier run
    /// has run are reported again.
    pub(crate) async fn begin(&self, target: &ObjectKey, in_cluster: &Value) -> bool {
        if !is_pod(target) {
            return false;
        }
        let pod = HookPod::of(in_cluster);
        let place = ResultScope::Namespace(pod.namespace.clone());
        let journal = &self.runner.env.operation.journal;
        let (hooks, warnings) = self.hooks.commands(&pod);
        for warning in warnings {
            journal.warn(&place, format!("pod {}: {warning}", pod.name));
        }
        if hooks.is_empty() {
            return false;
        }
        let name = pod.key().to_string();
        {
            let mut tally = lock(&self.runner.tally);
            hooks.iter().for_each(|hook| tally.due(&name, &hook.hook, Moment::Restored));
        }
        match self.runner.noted.of(&pod) {
            Some(CommandProgress::Ended(failures)) => {
                self.runner.tell_again(&pod, &hooks, failures);
                return false;
            }
            Some(CommandProgress::Begun) => journal.warn(
                &place,
                format!(
                    "an earlier run of this restore was cut off in the hooks of pod {}: they may run twice",
                    pod.name
                ),
            ),
            None => {}
        }
        let (state, began) = (self.states.follow(&pod.namespace, in_cluster), Instant::now());
        let (runner, states) = (Arc::clone(&self.runner), Arc::clone(&self.states));
        lock(&self.tasks).spawn(async move {
            if let Ok(_place) = runner.place(&runner.reads).await {
                states.read(&pod.namespace, &pod.name).await;
            }
            let failures = Mutex::default();
            let follower = Follower { runner: &runner, pod: &pod, began, failures: &failures };
            let whole = follower.follow(hooks, state).await;
            states.forget(&pod.namespace, &pod.name);
            if whole {
                let failures = std::mem::take(&mut *lock(&failures));
                runner.note(&pod, &CommandProgress::Ended(failures)).await;
            }
        });
        true
    }

    /// Gives up all commands when a restore breaks off: commands that did not run yet are reported, and run when the
    /// restore is resumed. Returns the counts so far.
    pub(crate) async fn break_off(&self) -> HookTally {
        self.runner.given_up.cancel();
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        let ended = timeout(BREAKING_OFF, self.runner.ended(&mut tasks)).await;
        if ended.is_err() {
            tasks.shutdown().await;
        }
        lock(&self.runner.tally).clone()
    }

    /// Waits for all commands, and gives their counts.
    pub(crate) async fn end(&self) -> HookTally {
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        if !tasks.is_empty() {
            let pods = tasks.len().to_string();
            self.runner.env.operation.journal.info("Waiting for the hooks of pods", &[("pods", &pods)]);
        }
        self.runner.ended(&mut tasks).await;
        lock(&self.runner.tally).clone()
    }
}

impl Runner {
    /// Waits for a place.
    ///
    /// # Errors
    /// Returns the reason why the restore runs no more commands.
    async fn place<'a>(&self, places: &'a Semaphore) -> Result<SemaphorePermit<'a>, &'static str> {
        tokio::select! {
            biased;
            () = self.env.operation.cancel.cancelled() => Err(CANCELLED),
            () = self.given_up.cancelled() => Err(BROKE_OFF),
            // It is never closed.
            place = places.acquire() => place.map_err(|_| BROKE_OFF),
        }
    }

    /// Waits for the commands of all pods.
    async fn ended(&self, tasks: &mut JoinSet<()>) {
        while let Some(ended) = tasks.join_next().await {
            if ended.is_err_and(|e| e.is_panic()) {
                let text = "the task that ran the hooks of a pod died: some of them may not have run";
                self.env.operation.journal.error(&ResultScope::Velero, text);
            }
        }
    }

    /// Notes how far the commands of a pod are.
    async fn note(&self, pod: &HookPod, past: &CommandProgress) {
        if let Err(e) = self.noted.note(pod, past).await {
            let what = match past {
                CommandProgress::Begun => "the hooks of pod",
                CommandProgress::Ended(_) => "that the hooks have run of pod",
            };
            let text = format!("{what} {} cannot be noted: after a crash they may run again: {e}", pod.name);
            self.env.operation.journal.warn(&ResultScope::Namespace(pod.namespace.clone()), text);
        }
    }

    /// Reports the commands of a pod again that an earlier run has reported.
    fn tell_again(&self, pod: &HookPod, hooks: &[RestoreHook], failures: Vec<CommandFailure>) {
        for CommandFailure { name, index, text } in failures {
            let found = hooks.iter().find(|hook| hook.hook.name == name && hook.hook.index == index);
            if let Some(hook) = found {
                lock(&self.tally).failed(&pod.key().to_string(), &hook.hook, Moment::Restored);
            }
            self.env.operation.journal.error(&ResultScope::Namespace(pod.namespace.clone()), text);
        }
    }
}

pub(crate) fn is_pod(key: &ObjectKey) -> bool {
    key.resource.group.is_empty() && key.resource.resource == "pods"
}

/// Waits for the containers of one pod.
struct Follower<'a> {
    runner: &'a Runner,
    pod: &'a HookPod,
    /// When the pod was made, in this run.
    began: Instant,
    /// Failures so far.
    failures: &'a Mutex<Vec<CommandFailure>>,
}

/// The reason why commands of a pod do not run any more.
enum StopReason {
    /// This happened to the pod.
    Because(&'static str),
    /// A command failed, and the failure counts for the whole pod.
    Failed,
    /// This happened to the restore. One that is begun again runs the commands.
    Stopped(String),
}

/// The reason why a command did not succeed.
enum CommandError {
    /// It failed.
    Failed(String),
    /// The restore stopped before it was begun.
    NotBegun(String),
    /// The restore stopped while it ran.
    CutOff(&'static str),
}

impl Follower<'_> {
    /// Runs the commands of each container when it is up. Gives whether a run again has nothing to do here.
    async fn follow(&self, hooks: Vec<RestoreHook>, mut state: watch::Receiver<PodState>) -> bool {
        let mut waiting = self.with_container(by_container(self.pod, hooks));
        let (cancel, given_up) = (&self.runner.env.operation.cancel, &self.runner.given_up);
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
                PodState::There { .. } => None,
            };
            if let Some(why) = is_over {
                break StopReason::Because(why);
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
                () = cancel.cancelled() => break StopReason::Stopped(CANCELLED.to_owned()),
                () = given_up.cancelled() => break StopReason::Stopped(BROKE_OFF.to_owned()),
                changed = state.changed() => if changed.is_err() {
                    break StopReason::Because("the pods of its namespace are not watched any more");
                },
                () = sleep_until(self.next_expiry(&waiting)) => self.expire(&mut waiting),
            }
        };
        let is_whole = match over {
            // When the restore stops, the watch may end before it is heard here.
            StopReason::Because(_) => !cancel.is_cancelled() && !given_up.is_cancelled(),
            StopReason::Failed => true,
            StopReason::Stopped(_) => false,
        };
        let why = match &over {
            StopReason::Because(why) => why,
            StopReason::Failed => "a command before it failed",
            StopReason::Stopped(why) => why.as_str(),
        };
        for (container, hooks) in waiting {
            for hook in hooks {
                self.tell(&hook.hook, &format!("not executed: {why}"), &container);
            }
        }
        is_whole
    }

    /// Returns the commands whose container the pod has. The others can never run, which is reported at once.
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

    async fn run_those_up(&self, waiting: &mut Containers, state: &PodState) -> Result<(), StopReason> {
        let PodState::There { containers, .. } = state else { return Ok(()) };
        for (container, hooks) in waiting.iter_mut() {
            if !is_up(containers.get(container).copied().unwrap_or_default(), hooks) {
                continue;
            }
            if !hooks.is_empty() && self.runner.noted.of(self.pod).is_none() {
                self.runner.note(self.pod, &CommandProgress::Begun).await;
            }
            while !hooks.is_empty() {
                let hook = hooks.remove(0);
                match self.run(&hook.hook).await {
                    Ok(()) => {}
                    Err(CommandError::Failed(error)) => {
                        self.tell(&hook.hook, &format!("failed to execute, err: {error}"), container);
                        if hook.hook.fails_pod {
                            return Err(StopReason::Failed);
                        }
                    }
                    Err(CommandError::NotBegun(why)) => {
                        hooks.insert(0, hook);
                        return Err(StopReason::Stopped(why));
                    }
                    Err(CommandError::CutOff(why)) => {
                        self.tell(&hook.hook, &format!("was cut off: {why} while it ran"), container);
                        return Err(StopReason::Stopped(why.to_owned()));
                    }
                }
            }
        }
        waiting.retain(|(_, hooks)| !hooks.is_empty());
        Ok(())
    }

    async fn run(&self, hook: &Hook) -> Result<(), CommandError> {
        let operation = &self.runner.env.operation;
        let place = self.runner.place(&self.runner.runs).await;
        let _place = place.map_err(|why| CommandError::NotBegun(why.to_owned()))?;
        let end = Instant::now() + PATIENCE;
        loop {
            (operation.fence)().map_err(CommandError::NotBegun)?;
            let ran = tokio::select! {
                biased;
                () = operation.cancel.cancelled() => return Err(CommandError::CutOff(CANCELLED)),
                () = self.runner.given_up.cancelled() => return Err(CommandError::CutOff(BROKE_OFF)),
                ran = run(hook, self.pod, Moment::Restored, &self.runner.env.cluster, &operation.journal) => ran,
            };
            match ran {
                Err(error) if error.was_not_started() && error.can_pass() && Instant::now() < end => sleep(PAUSE).await,
                ran => return ran.map_err(|error| CommandError::Failed(error.to_string())),
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
        lock(self.failures).push(CommandFailure { name: hook.name.clone(), index: hook.index, text: text.clone() });
        self.runner.env.operation.journal.error(&ResultScope::Namespace(namespace.clone()), text);
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

/// Returns true if the commands of a container can run: when one of them waits until the container is ready, all do.
fn is_up(up: ContainerReadiness, hooks: &[RestoreHook]) -> bool {
    if hooks.iter().any(|hook| hook.waits_for_ready) { up.is_ready } else { up.is_running }
}

#[cfg(test)]
mod tests;
