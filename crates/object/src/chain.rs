//! Writes an error with its causes for the user.

use std::error::Error;

/// An error and its causes, in this order. Those that an I/O error holds without naming them its source are among them.
pub fn error_and_causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| {
        let error: &'a (dyn Error + 'static) = *error;
        match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(held) => Some(held as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

/// An error with its causes in one line, each said once.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut out = error.to_string();
    for cause in error_and_causes(error).skip(1) {
        let text = cause.to_string();
        if !out.contains(&text) {
            out.push_str(": ");
            out.push_str(&text);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::{Display, Formatter, Result};

    #[derive(Debug)]
    struct Said(&'static str, Option<Box<Said>>);

    impl Display for Said {
        fn fmt(&self, f: &mut Formatter<'_>) -> Result {
            f.write_str(self.0)
        }
    }

    impl Error for Said {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn Error + 'static))
        }
    }

    #[test]
    fn causes_are_said_once() {
        let cause = Said("it does not exist", None);
        let middle = Said("cannot get \"a\": it does not exist", Some(Box::new(cause)));
        let error = Said("open", Some(Box::new(middle)));
        assert_eq!(chain(&error), "open: cannot get \"a\": it does not exist");
    }
    #[test]
    fn causes_inside_io_errors_are_found() {
        let inner = Said("inner", Some(Box::new(Said("innermost", None))));
        let outer = std::io::Error::other(std::io::Error::other(inner));
        let found: Vec<_> = error_and_causes(&outer).filter_map(|link| link.downcast_ref::<Said>()).collect();
        assert_eq!(found.iter().map(|said| said.0).collect::<Vec<_>>(), ["inner", "innermost"]);
        assert_eq!(chain(&outer), "inner: innermost");
    }
}
