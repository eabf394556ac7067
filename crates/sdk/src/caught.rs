//! Panics of the code that somebody else wrote.
//!
//! A call that panics is an error of that call, and says where: the process goes on. A panic elsewhere is a line of the log.

use futures::Stream;
use std::any::Any;
use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// A panic that was caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panic {
    /// Its message.
    pub(crate) said: String,
    /// The file and line where it came about.
    pub(crate) place: Option<(String, u32)>,
}

/// The state of this thread: if panics are caught, and where the last one came about.
#[derive(Default)]
enum Watch {
    #[default]
    Nobody,
    Watched,
    Seen(String, u32),
}

thread_local! {
    static WATCH: Cell<Watch> = const { Cell::new(Watch::Nobody) };
}

/// Lets panics be noted instead of printed: what stands on the standard error is the log, line by line.
pub(crate) fn note_panics() {
    std::panic::set_hook(Box::new(|info| {
        // A program that is built to end with a panic has nobody to catch it.
        if cfg!(panic = "abort") || !note(info.location()) {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            tracing::error!(place, "a part of the plugin panicked: {}", said(info.payload()));
        }
    }));
}

/// Returns true if the panic that has come about here is caught; notes its place then.
fn note(location: Option<&Location<'_>>) -> bool {
    match WATCH.take() {
        Watch::Nobody => false,
        watch => {
            let seen = |at: &Location<'_>| Watch::Seen(at.file().to_owned(), at.line());
            WATCH.set(location.map_or(watch, seen));
            true
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why").to_owned()
}

/// Does a part of the work, at once.
pub(crate) fn caught_now<T>(part: impl FnOnce() -> T) -> Result<T, Panic> {
    let before = WATCH.replace(Watch::Watched);
    // What a call leaves half done is its own: nothing of ours is in it.
    let done = catch_unwind(AssertUnwindSafe(part));
    let after = WATCH.replace(before);
    done.map_err(|panic| Panic {
        said: said(&*panic),
        place: if let Watch::Seen(file, line) = after { Some((file, line)) } else { None },
    })
}

/// Does what may take a while.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panic> {
    let mut work = pin!(work);
    poll_fn(|context| match caught_now(|| work.as_mut().poll(context)) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Passes on the items of a stream; a panic ends it, as its last item.
pub(crate) fn caught_stream<T>(mut stream: impl Stream<Item = T> + Unpin) -> impl Stream<Item = Result<T, Panic>> {
    let mut has_panicked = false;
    futures::stream::poll_fn(move |context| {
        if has_panicked {
            return Poll::Ready(None);
        }
        match caught_now(|| std::pin::Pin::new(&mut stream).poll_next(context)) {
            Ok(polled) => polled.map(|item| item.map(Ok)),
            Err(panic) => {
                has_panicked = true;
                Poll::Ready(Some(Err(panic)))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use futures::stream;

    fn panic(said: &str) -> Panic {
        Panic { said: said.to_owned(), place: None }
    }

    /// Panics where the compiler cannot know it.
    fn fail(why: &str) -> u32 {
        if why.is_empty() { 7 } else { panic!("{why}") }
    }

    // The hook is the process's: it is not set here, so no place is known.
    #[tokio::test]
    async fn a_panic_is_what_it_says() {
        assert_eq!(caught_now(|| fail("")), Ok(7));
        assert_eq!(caught_now(|| fail("odd")), Err(panic("odd")));
        assert_eq!(caught(async { fail("later") }).await, Err(panic("later")));
        assert_eq!(caught_now(|| std::panic::panic_any(7)), Err::<(), _>(panic("it did not say why")));
        let items: Vec<_> = caught_stream(stream::iter(["", "odd", ""]).map(fail)).collect().await;
        assert_eq!(items, [Ok(7), Err(panic("odd"))]);
    }

    #[test]
    fn the_place_is_noted_for_who_catches_it() {
        assert!(!note(Some(Location::caller())));
        let caught = caught_now(|| {
            assert!(note(Some(Location::caller())));
            fail("odd")
        });
        assert_eq!(caught.unwrap_err().place.map(|(file, _)| file), Some(file!().to_owned()));
        assert!(!note(Some(Location::caller())));
    }
}
