//! Snapshotters and object stores, which are made anew for each configuration.

use crate::call::call;
use crate::status;
use futures::future::BoxFuture;
use lifeboat_action::ActionError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tonic::Status;

/// The configuration of a location, as its resource has it, and what the server adds
/// (velero: internal/credentials/file_store.go).
pub type Config = BTreeMap<String, String>;

/// Makes one for a configuration.
pub(crate) type Make<T> = Box<dyn Fn(Config) -> BoxFuture<'static, Result<Arc<T>, ActionError>> + Send + Sync>;

/// The snapshotter or store that a server has initialised last. A server may do so many times in a process: twice in a
/// backup, once for each restored volume.
pub(crate) struct ConfiguredInstance<T: ?Sized> {
    make: Make<T>,
    /// The number of initialisations that were begun.
    begun: AtomicU64,
    /// The newest that was made, with its number.
    newest: Mutex<(u64, Option<Arc<T>>)>,
}

impl<T: ?Sized> ConfiguredInstance<T> {
    pub(crate) fn new(make: Make<T>) -> Self {
        Self { make, begun: AtomicU64::new(0), newest: Mutex::new((0, None)) }
    }

    /// Makes one, which takes the place of those that were begun before it. When it cannot be made, they stay.
    pub(crate) async fn init(&self, config: Config) -> Result<(), Status> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let made = call(async { (self.make)(config).await }).await?;
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if number > newest.0 {
            *newest = (number, Some(made));
        }
        Ok(())
    }

    /// The newest one.
    pub(crate) fn get(&self) -> Result<Arc<T>, Status> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest
            .1
            .clone()
            .ok_or_else(|| status::odd("the plugin has no configuration yet: the server must call Init first"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Notify;

    fn config(value: &str) -> Config {
        Config::from([("value".to_owned(), value.to_owned())])
    }

    fn got(made: &ConfiguredInstance<String>) -> Result<String, String> {
        made.get().map(|made| made.to_string()).map_err(|error| error.message().to_owned())
    }

    #[tokio::test]
    async fn the_last_configuration_counts() {
        let made: ConfiguredInstance<String> = ConfiguredInstance::new(Box::new(|config| {
            Box::pin(async move {
                match config["value"].as_str() {
                    "odd" => Err(ActionError::item("it is odd")),
                    "panic" => panic!("it panics"),
                    value => Ok(Arc::new(value.to_owned())),
                }
            })
        }));
        let expected = "the plugin has no configuration yet: the server must call Init first";
        assert_eq!(got(&made), Err(expected.to_owned()));
        made.init(config("a")).await.unwrap();
        made.init(config("b")).await.unwrap();
        assert_eq!(got(&made), Ok("b".to_owned()));
        assert_eq!(made.init(config("odd")).await.unwrap_err().message(), "it is odd");
        assert_eq!(made.init(config("panic")).await.unwrap_err().message(), "plugin panicked: it panics");
        assert_eq!(got(&made), Ok("b".to_owned()));
    }

    #[tokio::test]
    async fn one_that_was_begun_before_does_not_come_after() {
        let go_on = Arc::new(Notify::new());
        let wait = go_on.clone();
        let made: ConfiguredInstance<String> = ConfiguredInstance::new(Box::new(move |config| {
            let wait = wait.clone();
            Box::pin(async move {
                if config["value"] == "slow" {
                    wait.notified().await;
                }
                Ok(Arc::new(config["value"].clone()))
            })
        }));
        let fast = async {
            made.init(config("fast")).await.unwrap();
            go_on.notify_one();
        };
        let (slow, ()) = tokio::join!(made.init(config("slow")), fast);
        slow.unwrap();
        assert_eq!(got(&made), Ok("fast".to_owned()));
    }
}
