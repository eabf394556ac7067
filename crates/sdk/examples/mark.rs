//! A plugin that writes into each ConfigMap of a backup which backup it is of, and takes the Secret along that it names. Its page is
//! docs/plugin-sdk.md.

use lifeboat_plugin_sdk::{
    ActionError, ActionScope, BackupItemAction, BackupItemInput, BackupItemOutput, GroupResource, ObjectKey, Plugin,
    async_trait,
};

struct Mark;

#[async_trait]
impl BackupItemAction for Mark {
    fn name(&self) -> &str {
        "example.io/mark"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["configmaps"])
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
        let mut item = input.item;
        item["metadata"]["annotations"]["example.io/saved-by"] = input.backup.metadata.name.as_str().into();
        tracing::info!(name = item["metadata"]["name"].as_str(), "marked");
        let secret = item["data"]["secret"].as_str().map(|secret| {
            let namespace = item["metadata"]["namespace"].as_str();
            ObjectKey::new(GroupResource::new("", "secrets"), namespace, secret)
        });
        Ok(BackupItemOutput { additional_items: secret.into_iter().collect(), ..BackupItemOutput::changed(item) })
    }
}

fn main() -> std::process::ExitCode {
    Plugin::new().backup_item_action(Mark).serve()
}
