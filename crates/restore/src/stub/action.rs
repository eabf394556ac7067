//! An action that does as a test says, and keeps what it was asked.

use async_trait::async_trait;
use lifeboat_action::{
    ActionError, ActionScope, OperationProgress, RestoreItemAction, RestoreItemInput, RestoreItemOutput,
};
use lifeboat_api::Restore;
use lifeboat_object::ObjectKey;
use serde_json::Value;
use std::sync::Mutex;

type ScriptedOutput = Result<RestoreItemOutput, ActionError>;
type ProgressResult = Result<OperationProgress, ActionError>;
/// Progress of an operation, by its name and the number of earlier calls.
type ProgressScript = Box<dyn Fn(&str, usize) -> ProgressResult + Send + Sync>;

/// An action on ConfigMaps, unless another scope is given, that does as it is told.
pub(crate) struct Scripted {
    scope: ActionScope,
    is_pure: bool,
    execute: Box<dyn Fn(Value, usize) -> ScriptedOutput + Send + Sync>,
    ready: Vec<Result<bool, ActionError>>,
    ready_after: Option<&'static str>,
    /// Names of the objects it was asked about.
    asked: Mutex<Vec<String>>,
    /// The items it was asked whether they are ready.
    asked_whether_ready: Mutex<Vec<Vec<ObjectKey>>>,
    progress: ProgressScript,
    /// The operations it was asked how far they are, and those it was told to end.
    followed: Mutex<Vec<String>>,
    cancelled: Mutex<Vec<String>>,
}

impl Scripted {
    /// It is given the object, and how often it was asked about that before.
    pub(crate) fn new(execute: impl Fn(Value, usize) -> ScriptedOutput + Send + Sync + 'static) -> Self {
        Self {
            scope: ActionScope::resources(&["configmaps"]),
            is_pure: false,
            execute: Box::new(execute),
            ready: vec![Ok(true)],
            ready_after: None,
            asked: Mutex::default(),
            asked_whether_ready: Mutex::default(),
            progress: Box::new(|_, _| Ok(OperationProgress::default())),
            followed: Mutex::default(),
            cancelled: Mutex::default(),
        }
    }

    /// The same one, that says this of an operation of which it was asked so often before.
    pub(crate) fn progressing(self, progress: impl Fn(&str, usize) -> ProgressResult + Send + Sync + 'static) -> Self {
        Self { progress: Box::new(progress), ..self }
    }

    /// The same one, which previews may ask too.
    pub(crate) fn pure(self) -> Self {
        Self { is_pure: true, ..self }
    }

    /// The same one, for these objects.
    pub(crate) fn scoped(self, scope: ActionScope) -> Self {
        Self { scope, ..self }
    }

    pub(crate) fn cancelled(&self) -> Vec<String> {
        self.cancelled.lock().unwrap().clone()
    }

    /// An action that gives these answers when it is asked for the readiness of items; the last one is repeated.
    pub(crate) fn ready(ready: Vec<Result<bool, ActionError>>) -> Self {
        Self { ready, ..Self::new(|item, _| Ok(RestoreItemOutput::with(item))) }
    }

    /// The same one, that does this.
    pub(crate) fn executing(self, execute: impl Fn(Value, usize) -> ScriptedOutput + Send + Sync + 'static) -> Self {
        Self { execute: Box::new(execute), ..self }
    }

    /// The same one, for which items are ready when it was asked about the object of this name.
    pub(crate) fn until(self, name: &'static str) -> Self {
        Self { ready_after: Some(name), ..self }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn asked_whether_ready(&self) -> usize {
        self.asked_whether_ready.lock().unwrap().len()
    }

    pub(crate) fn items(&self) -> Vec<Vec<ObjectKey>> {
        self.asked_whether_ready.lock().unwrap().clone()
    }
}

#[async_trait]
impl RestoreItemAction for Scripted {
    fn name(&self) -> &str {
        "test/scripted"
    }

    fn applies_to(&self) -> ActionScope {
        self.scope.clone()
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> ScriptedOutput {
        let name = input.item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let before = self.asked().iter().filter(|asked| **asked == name).count();
        self.asked.lock().unwrap().push(name);
        (self.execute)(input.item, before)
    }

    fn is_pure(&self) -> bool {
        self.is_pure
    }

    async fn are_additional_items_ready(&self, items: &[ObjectKey], _: &Restore) -> Result<bool, ActionError> {
        let asked = {
            let mut all = self.asked_whether_ready.lock().unwrap();
            all.push(items.to_vec());
            all.len()
        };
        if let Some(name) = self.ready_after {
            return Ok(self.asked().iter().any(|asked| asked == name));
        }
        self.ready[asked.min(self.ready.len()) - 1].clone()
    }

    async fn progress(&self, id: &str, _: &Restore) -> ProgressResult {
        let before = {
            let mut followed = self.followed.lock().unwrap();
            followed.push(id.to_owned());
            followed.iter().filter(|one| *one == id).count() - 1
        };
        (self.progress)(id, before)
    }

    async fn cancel(&self, id: &str, _: &Restore) -> Result<(), ActionError> {
        self.cancelled.lock().unwrap().push(id.to_owned());
        Ok(())
    }
}
