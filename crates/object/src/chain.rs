//! An error for people.

use std::error::Error;

/// An error with its causes in one line, each said once.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut out = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !out.contains(&text) {
            out.push_str(": ");
            out.push_str(&text);
        }
        next = cause.source();
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
}
