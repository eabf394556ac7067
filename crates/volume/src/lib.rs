//! What happens to each volume of a backup, and what is recorded of it (design: one verdict with one reason for each volume).
//!
//! A [`Survey`] takes in what is read of pods, claims and volumes ([`facts`]); [`decide()`] says of each volume what is done with
//! it, and why: a pure function, the same for a backup, its dry run and `volume explain`. What came of it is a [`Report`], and
//! [`records`] makes the volume information of a backup from verdicts and reports, never from guesses.
//!
//! Start reading at [`decide()`].

pub mod csi;
mod decide;
pub mod facts;
pub mod native;
mod reason;
mod record;
mod survey;
mod verdict;

pub use decide::{Rules, Volume, decide};
pub use record::{Report, Reports, Saved, records, unprotected};
pub use survey::{Decided, Survey, Verdicts};
pub use verdict::{Flags, Hindrance, Verdict, Way, Why};
