//! Further names of files. They are made when everything else is there.

use super::directory::Directory;
use super::in_place::{keeps, kind, look, make_room};
use super::names::refusal;
use super::run::{Ended, Run};
use crate::failure::Failed;
use crate::handles::Identity;
use crate::progress::add;
use crate::tree::{Attributes, EntryKind, SourceEntry};
use rustix::fs::{AtFlags, linkat};
use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

/// The names of files that have several.
#[derive(Debug, Default)]
pub(super) struct HardLinks(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    /// The first name of each file, under which it is restored.
    first: HashMap<(u64, u64), Arc<FileName>>,
    further: Vec<FurtherName>,
}

#[derive(Debug)]
struct FileName {
    directory: Arc<Directory>,
    name: OsString,
}

#[derive(Debug)]
struct FurtherName {
    place: FileName,
    first: Arc<FileName>,
    size: u64,
    attributes: Attributes,
}

impl HardLinks {
    /// Keeps an entry that is a further name of a file for later. Any other is given back.
    pub(super) fn keep_further(&self, directory: &Arc<Directory>, entry: SourceEntry) -> Option<SourceEntry> {
        let (EntryKind::File, Some(identity), Some(attributes)) =
            (&entry.kind, entry.hard_link, entry.attributes.clone())
        else {
            return Some(entry);
        };
        if refusal(&entry.name).is_some() {
            return Some(entry);
        }
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = FileName { directory: directory.clone(), name: entry.name.clone() };
        let Some(first) = names.first.get(&identity).cloned() else {
            names.first.insert(identity, Arc::new(place));
            return Some(entry);
        };
        directory.add();
        names.further.push(FurtherName { place, first, size: entry.size, attributes });
        None
    }

    /// Makes the names that were kept.
    pub(super) fn make(&self, run: &Run) -> Result<(), Ended> {
        let names = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for further in names.further {
            let _step = run.enter()?;
            let FileName { directory, name } = &further.place;
            match further.make(run) {
                Ok(()) => add(&run.progress.files, 1),
                Err(failed) => run.fail(&directory.path(name), &failed)?,
            }
            directory.release(run)?;
        }
        Ok(())
    }
}

impl FurtherName {
    fn make(&self, run: &Run) -> Result<(), Failed> {
        let (at, first_at) = (self.place.directory.file(run)?, self.first.directory.file(run)?);
        let first = look(&first_at, &self.first.name)?.filter(|stat| {
            let has_size = u64::try_from(stat.st_size) == Ok(self.size);
            kind(stat).is_file() && has_size && (!run.options.times || self.attributes.has_time_of(stat))
        });
        let Some(first) = first else {
            let path = self.first.directory.path(&self.first.name);
            return Err(Failed::Because(format!("it is another name of {path}, which was not restored")));
        };
        if let Some(stat) = look(&at, &self.place.name)? {
            keeps(run)?;
            if Identity::of(&stat) == Identity::of(&first) {
                return Ok(());
            }
            make_room(run, &self.place.directory, &self.place.name, &stat)?;
        }
        linkat(&first_at, &self.first.name, &at, &self.place.name, AtFlags::empty())
            .map_err(Failed::to("make the hard link"))
    }
}
