//! Runs the hooks of pods around their backup (velero: pkg/backup/backup.go, internal/hook), so that no application
//! stays frozen.
//!
//! Commands run as tasks of their own, which outlive the worker that waits for them: when an operation is broken off, a
//! command that froze an application has ended, or has no time left, before the command that thaws it runs for the last
//! time.

use bytes::Bytes;
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::Time;
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_hook::{Hook, HookError, HookPod, HookTally, Moment, Owed, OwedHooks, PodHooks};
use lifeboat_object::{ApiResource, GroupResource, ObjectKey, ResultScope, Severity};
use lifeboat_operation::Operation;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Start of an error of a hook in the results.
const FAILED: &str = "Error executing hook";
/// The longest time for which a post hook is tried again while the API server or the node cannot be reached.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause between these attempts.
const PAUSE: Duration = Duration::from_secs(2);
/// The time that a running command still gets when the operation is broken off.
const GRACE: Duration = Duration::from_secs(30);
/// The longest time for which a command of a run that died is waited for. A note can be wrong, and so can the clock of
/// its writer.
const LONGEST_FREEZE: Duration = Duration::from_secs(4 * 3600);
/// The number of pods that are thawed at once.
const AT_ONCE: usize = 8;

/// The commands that one operation runs in containers.
#[derive(Clone)]
pub(crate) struct Commands {
    cluster: Cluster,
    operation: Operation,
    owed: Owed,
    shared: Arc<CommandsState>,
}

#[derive(Default)]
struct CommandsState {
    running: Mutex<JoinSet<()>>,
    /// The pods that are owed hooks by this run.
    owing: Mutex<BTreeMap<ObjectKey, QuiescedPod>>,
}

/// A pod whose commands before its backup have run.
#[derive(Clone)]
pub(crate) struct QuiescedPod {
    pod: HookPod,
    post: Vec<Hook>,
    /// True when a command before the backup may have frozen something: false only when certainly none was started.
    may_be_frozen: bool,
    /// True when there is no command before the backup: then nobody knows what the commands after it are for.
    has_only_post: bool,
    /// True when the post hooks run once more later, so that now there may be nothing that they thaw.
    runs_again: bool,
    /// True when the pod must stay out of the backup.
    pub(crate) is_refused: bool,
}

impl Commands {
    pub(crate) fn new(cluster: &Cluster, operation: &Operation) -> Self {
        let owed = Owed::new(Arc::clone(&operation.records));
        Self { cluster: cluster.clone(), operation: operation.clone(), owed, shared: Arc::default() }
    }

    /// Runs the hooks of a pod before its backup, in their order. Errors are in the results.
    pub(crate) async fn quiesce(&self, pod: HookPod, hooks: PodHooks, tally: &mut HookTally) -> QuiescedPod {
        let PodHooks { pre, post, warnings } = hooks;
        let key = pod.key();
        let pod = if pre.is_empty() && post.is_empty() { pod } else { self.as_it_is(pod, &key).await };
        for warning in warnings {
            self.operation.journal.item(Severity::Warning, &key, &warning, None);
        }
        let name = key.to_string();
        pre.iter().for_each(|hook| tally.due(&name, hook, Moment::Pre));
        post.iter().for_each(|hook| tally.due(&name, hook, Moment::Post));
        let mut quiesced = QuiescedPod {
            pod,
            post,
            may_be_frozen: true,
            has_only_post: pre.is_empty(),
            runs_again: false,
            is_refused: false,
        };
        if !pre.is_empty() && !quiesced.post.is_empty() && !quiesced.pod.is_over {
            if let Err(e) = self.owed.owe(&quiesced.pod, &quiesced.post, self.end_of(&pre)).await {
                // Nothing would thaw the application if this process died now.
                let error =
                    format!("what the pod is owed after its backup cannot be noted, so none of its hooks runs: {e}");
                self.operation.journal.item(Severity::Error, &key, FAILED, Some(&error));
                pre.iter().for_each(|hook| tally.failed(&name, hook, Moment::Pre));
                quiesced.post.clear();
                quiesced.is_refused = pre.iter().any(|hook| hook.fails_pod);
                return quiesced;
            }
            lock(&self.shared.owing).insert(key.clone(), quiesced.clone());
        }
        quiesced.may_be_frozen = false;
        for hook in pre {
            let ran = self.run(&hook, &quiesced.pod, Moment::Pre).await;
            quiesced.may_be_frozen |= !matches!(&ran, Err(error) if error.was_not_started());
            let Err(error) = ran else { continue };
            tally.failed(&name, &hook, Moment::Pre);
            let error = error.to_string();
            self.tell(&hook, &key, &error);
            if hook.fails_pod {
                quiesced.is_refused = true;
                break;
            }
        }
        quiesced
    }

    /// The time at which hooks that run now, one after the other, have no time left.
    fn end_of(&self, hooks: &[Hook]) -> Time {
        let seconds = hooks.iter().map(|hook| hook.timeout.to_std()).sum::<Duration>().as_secs() + 1;
        let now = (self.operation.clock)();
        // Far beyond the end of time no command runs.
        let end = now.checked_add(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)));
        Time::new(end.unwrap_or(Timestamp::MAX))
    }

    /// Reads the pod as it is now: it may have been replaced since it was listed, and commands are sent by name. A pod
    /// that is not there any more has ended.
    async fn as_it_is(&self, listed: HookPod, key: &ObjectKey) -> HookPod {
        match self.read(key).await {
            Ok(Some(pod)) => pod,
            Ok(None) => HookPod { is_over: true, ..listed },
            // The commands say what is wrong when they cannot run either.
            Err(e) => {
                let (pod, why) = (key.to_string(), e.to_string());
                self.operation
                    .journal
                    .info("A pod cannot be read before its hooks run", &[("pod", &pod), ("why", &why)]);
                listed
            }
        }
    }

    /// Runs the hooks of a pod after its backup, in their order. Errors are in the results. Returns true if nothing is
    /// owed to the pod any more.
    pub(crate) async fn thaw(&self, quiesced: QuiescedPod, tally: &mut HookTally) -> bool {
        let pod = quiesced.pod.clone();
        let has_post = !quiesced.post.is_empty();
        self.run_post(quiesced, tally).await && (!has_post || self.settle(&pod).await)
    }

    /// Runs the hooks of a pod after its backup, and gives whether its note may go.
    async fn run_post(&self, quiesced: QuiescedPod, tally: &mut HookTally) -> bool {
        let QuiescedPod { pod, post, may_be_frozen, has_only_post, runs_again, .. } = quiesced;
        let key = pod.key();
        let mut stays_owed = false;
        for hook in post {
            let ran = match may_be_frozen || has_only_post {
                true => self.run_patiently(&hook, &pod).await,
                false => self.run(&hook, &pod, Moment::Post).await,
            };
            let Err(error) = ran else { continue };
            if matches!(error, NotDone::Fenced(_)) {
                // It stays owed, and the process that has taken over pays it.
                return false;
            }
            if error.says_gone() && self.read(&key).await.is_ok_and(|now| now.is_none_or(|now| now.uid != pod.uid)) {
                let name = key.to_string();
                self.operation.journal.info("A pod that was owed hooks is gone", &[("pod", &name)]);
                break;
            }
            if runs_again && error.ended_badly() {
                // It thaws what is not frozen, when it ran already or the freezing did not yet.
                let text =
                    format!("hook {}, which a pod is owed and which runs once more later, failed: {error}", hook.name);
                self.operation.journal.item(Severity::Warning, &key, &text, None);
                // Should the attempt not come to this pod, whoever ends it finds the note.
                stays_owed = true;
                continue;
            }
            tally.failed(&key.to_string(), &hook, Moment::Post);
            let command = hook.command.join(" ");
            let advice = match may_be_frozen {
                true => {
                    format!("{error}: the application may be frozen still; {command:?} in the pod is what thaws it")
                }
                false => error.to_string(),
            };
            self.tell(&hook, &key, &advice);
            // compat: Velero runs no further one either way, and leaves frozen what that would have thawed.
            if hook.fails_pod && !may_be_frozen {
                break;
            }
        }
        !stays_owed
    }

    /// Notes that nothing is owed to a pod any more, and gives whether that went well.
    async fn settle(&self, pod: &HookPod) -> bool {
        lock(&self.shared.owing).remove(&pod.key());
        let settled = self.owed.settle(pod).await;
        if let Err(e) = &settled {
            let text = format!(
                "the hooks of {} after its backup have run, and that cannot be noted: they may run again: {e}",
                pod.key()
            );
            self.operation.journal.warn(&ResultScope::Namespace(pod.namespace.clone()), text);
        }
        settled.is_ok()
    }

    fn tell(&self, hook: &Hook, key: &ObjectKey, error: &str) {
        self.operation.journal.item(Severity::Error, key, FAILED, Some(&format!("hook {}: {error}", hook.name)));
    }

    /// Runs a post hook, again while it could not even be started.
    async fn run_patiently(&self, hook: &Hook, pod: &HookPod) -> Result<(), NotDone> {
        let end = Instant::now() + PATIENCE;
        let (key, mut pod) = (pod.key(), pod.clone());
        loop {
            match self.run(hook, &pod, Moment::Post).await {
                Err(NotDone::Failed(error)) if error.can_pass() && Instant::now() < end => sleep(PAUSE).await,
                ended => return ended,
            }
            // Its container may have ended, and then no patience helps.
            if let Ok(Some(now)) = self.read(&key).await
                && now.uid == pod.uid
            {
                pod = now;
            }
        }
    }

    /// Runs a command as a task that outlives its caller.
    async fn run(&self, hook: &Hook, pod: &HookPod, moment: Moment) -> Result<(), NotDone> {
        (self.operation.fence)().map_err(NotDone::Fenced)?;
        let (sender, ended) = oneshot::channel();
        let (cluster, journal) = (self.cluster.clone(), self.operation.journal.clone());
        let (hook, pod) = (hook.clone(), pod.clone());
        self.spawn(async move {
            // The caller may be gone.
            let _ = sender.send(lifeboat_hook::run(&hook, &pod, moment, &cluster, &journal).await);
        });
        match ended.await {
            Ok(result) => result.map_err(NotDone::Failed),
            Err(_) => Err(NotDone::Died),
        }
    }

    fn spawn(&self, command: impl Future<Output = ()> + Send + 'static) {
        let mut running = lock(&self.shared.running);
        // Those that have ended are let go of.
        while running.try_join_next().is_some() {}
        running.spawn(command);
    }

    /// Ends the hooks of an operation that was broken off: waits a while for the commands that are under way, and runs
    /// the hooks that are owed. Commands that take longer are waited for as long as they have time, because such a
    /// command may freeze its application until then and nothing can end it; the hooks run once more then. The notes
    /// are not read: they are deleted with their owner.
    pub(crate) async fn end(&self) {
        let mut running = std::mem::take(&mut *lock(&self.shared.running));
        let have_ended = timeout(GRACE, async { while running.join_next().await.is_some() {} }).await.is_ok();
        let owing = std::mem::take(&mut *lock(&self.shared.owing));
        if !have_ended && !owing.is_empty() {
            let count = running.len().to_string();
            self.operation
                .journal
                .info("Waiting for commands in pods, which may freeze them still", &[("commands", &count)]);
            let thaw = |commands: Self, pod| async move {
                commands.run_post(QuiescedPod { runs_again: true, ..pod }, &mut HookTally::default()).await
            };
            self.for_some_at_once(owing.values().cloned(), thaw).await;
            // Each has a time of its own.
            while running.join_next().await.is_some() {}
        }
        let thaw = |commands: Self, pod| async move { commands.thaw(pod, &mut HookTally::default()).await };
        self.for_some_at_once(owing.into_values(), thaw).await;
    }

    /// Runs the hooks of pods after their backup, of several at once, so that none of them waits for another's node.
    pub(crate) async fn thaw_all(&self, quiesced: Vec<QuiescedPod>, tally: &mut HookTally) {
        let thaw = |pod| async move {
            let mut tally = HookTally::default();
            self.thaw(pod, &mut tally).await;
            tally
        };
        let mut thawing = stream::iter(quiesced).map(thaw).buffer_unordered(AT_ONCE);
        while let Some(of_pod) = thawing.next().await {
            tally.add(of_pod);
        }
    }

    /// Returns true if hooks are owed to pods, by this run or by one before it, and if that cannot be known.
    pub(crate) async fn owes(&self) -> bool {
        self.owed.all().await.map_or(true, |(owed, unreadable)| !owed.is_empty() || !unreadable.is_empty())
    }

    /// Runs all hooks that are owed to pods, by this run or by one before it; `attempt_follows` says that all pods are
    /// frozen and thawed again afterwards. A command of a run that died may go on and freeze its pod until it has no
    /// time left. Then the hooks run at once, and once more after that time; where an attempt follows, nothing waits
    /// for it, and the pod stays owed. Returns true if nothing is owed any more; otherwise a later call may succeed.
    pub(crate) async fn pay(&self, attempt_follows: bool) -> bool {
        let (owed, unreadable) = match self.owed.all().await {
            Ok(all) => all,
            Err(e) => {
                let text = format!(
                    "it cannot be read which pods are owed hooks after their backup: {e}: applications may be frozen"
                );
                self.operation.journal.error(&ResultScope::Velero, text);
                return false;
            }
        };
        for key in unreadable {
            let text =
                format!("the note {key} of hooks that a pod is owed cannot be read: an application may be frozen");
            self.operation.journal.error(&ResultScope::Velero, text);
        }
        let pay = |commands: Self, one| async move { commands.pay_one(one, attempt_follows).await };
        self.for_some_at_once(owed, pay).await
    }

    /// Does this for all, and gives whether all of it went well.
    async fn for_some_at_once<T, F>(&self, all: impl IntoIterator<Item = T>, work: impl Fn(Self, T) -> F) -> bool
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let (mut all, mut working, mut well) = (all.into_iter(), JoinSet::new(), true);
        loop {
            while working.len() < AT_ONCE
                && let Some(one) = all.next()
            {
                working.spawn(work(self.clone(), one));
            }
            match working.join_next().await {
                None => return well,
                Some(Ok(went_well)) => well &= went_well,
                Some(Err(_)) => {
                    well = false;
                    let text = "a task that ran the hooks owed to a pod died: an application may be frozen";
                    self.operation.journal.error(&ResultScope::Velero, text);
                }
            }
        }
    }

    async fn pay_one(&self, owed: OwedHooks, attempt_follows: bool) -> bool {
        let OwedHooks { namespace, name, uid, post, frozen_by } = owed;
        let key = ObjectKey::new(GroupResource::new("", "pods"), Some(&namespace), name);
        let pod = match self.read(&key).await {
            Ok(Some(pod)) if pod.uid == uid => pod,
            Ok(_) => {
                let name = key.to_string();
                self.operation.journal.info("A pod that was owed hooks is gone", &[("pod", &name)]);
                let gone = HookPod { namespace, name: key.name, ..HookPod::default() };
                return self.settle(&gone).await;
            }
            Err(error) => {
                let can_pass = error.can_pass();
                let error = format!("{error}: the application may be frozen still");
                self.operation.journal.item(Severity::Error, &key, FAILED, Some(&error));
                return !can_pass;
            }
        };
        let name = key.to_string();
        self.operation.journal.info("Running hooks that a pod is owed", &[("pod", &name)]);
        let left = frozen_by.map_or(Duration::ZERO, |by| self.time_until(by));
        let is_early = !left.is_zero();
        let mut owed = QuiescedPod {
            pod,
            post,
            may_be_frozen: true,
            has_only_post: false,
            runs_again: attempt_follows || is_early,
            is_refused: false,
        };
        if is_early {
            self.run_post(owed.clone(), &mut HookTally::default()).await;
            if attempt_follows {
                return false;
            }
            let seconds = left.as_secs().to_string();
            let told = [("pod", name.as_str()), ("seconds", &seconds)];
            self.operation
                .journal
                .info("Waiting for a command that may freeze a pod still, whose caller is gone", &told);
            sleep(left).await;
            owed.runs_again = false;
        }
        self.thaw(owed, &mut HookTally::default()).await
    }

    /// The time that is left until then, four hours at the most.
    fn time_until(&self, then: Time) -> Duration {
        let left = then.timestamp().duration_since((self.operation.clock)());
        Duration::try_from(left).unwrap_or_default().min(LONGEST_FREEZE)
    }

    async fn read(&self, key: &ObjectKey) -> Result<Option<HookPod>, ClusterError> {
        let pods = ApiResource::new("", "v1", "pods", "Pod");
        let body = self.cluster.get(&pods, key.namespace.as_deref(), &key.name).await?;
        // An answer that is no JSON is a pod of which nothing is known.
        let pod = |body: Bytes| HookPod::of(&serde_json::from_slice::<Value>(&body).unwrap_or_default());
        Ok(body.map(pod))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the hooks that pods are owed by a backup that was cut off and that is not begun again, so that applications
/// that its last attempt has frozen are thawed. Errors are in the journal. Returns true if nothing is owed any more;
/// otherwise a later call may succeed, and the notes must stay until then.
///
/// Eight pods have their turn at once. Each takes as long as its commands, one after the other: the time that the hook of each sets
/// (half a minute unless it says more, four hours at most), and as long as a request may take and two minutes more where the API
/// server or the node is away.
#[must_use]
pub async fn run_owed_hooks(cluster: &Cluster, operation: &Operation) -> bool {
    Commands::new(cluster, operation).pay(false).await
}

/// A command that did not do what it should.
#[derive(Debug, thiserror::Error)]
enum NotDone {
    #[error("{0}")]
    Fenced(String),
    #[error(transparent)]
    Failed(#[from] HookError),
    #[error("the task that ran the command died")]
    Died,
}

impl NotDone {
    /// Returns true if the API server says that the pod is not there.
    fn says_gone(&self) -> bool {
        matches!(self, Self::Failed(error) if error.says_gone())
    }

    /// Returns true if the command ran and ended with an exit code other than 0.
    fn ended_badly(&self) -> bool {
        matches!(self, Self::Failed(error) if error.ended_badly())
    }

    /// Returns true if the command was certainly not started.
    fn was_not_started(&self) -> bool {
        match self {
            Self::Fenced(_) => true,
            Self::Failed(error) => error.was_not_started(),
            Self::Died => false,
        }
    }
}

#[cfg(test)]
mod tests;
