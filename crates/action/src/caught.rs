//! Panics in actions.

use crate::ActionError;
use futures::FutureExt;
use std::any::Any;
use std::panic::AssertUnwindSafe;

/// Awaits a call of an action. A panic of the action becomes an error of its object, with the message of the panic.
///
/// # Errors
/// The action's, or its panic.
pub async fn caught<T>(calling: impl Future<Output = Result<T, ActionError>>) -> Result<T, ActionError> {
    let called = AssertUnwindSafe(calling).catch_unwind().await;
    called.unwrap_or_else(|panic| Err(ActionError::item(format!("it panicked: {}", said(&*panic)))))
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_of_the_object() {
        let text = "a text".to_owned();
        let panics = caught(async { if text.is_empty() { Ok(()) } else { panic!("{text} was odd") } });
        assert_eq!(panics.await, Err(ActionError::item("it panicked: a text was odd")));
        let says_nothing = caught(async { if text.is_empty() { Ok(()) } else { std::panic::panic_any(7) } });
        assert_eq!(says_nothing.await, Err(ActionError::item("it panicked: it did not say why")));
        assert_eq!(caught(async { Ok(7) }).await, Ok(7));
    }
}
