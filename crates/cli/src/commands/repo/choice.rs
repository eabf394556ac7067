//! Choice of a snapshot: by its ID, the beginning of one, or `latest`, which is of one source.

use anyhow::{Result, bail};
use clap::Args;
use lifeboat_kopia::snapshot::{LATEST, Snapshot};
use lifeboat_object::first_names;
use lifeboat_restic::Snapshot as ResticSnapshot;
use lifeboat_terminal::output::errors::warn;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Display;

/// The source of which a command takes the newest snapshot.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SnapshotSourceArgs {
    /// Choose latest among the snapshots of this source: USER@HOST:PATH, or the path alone, as repo snapshots lists it;
    /// NAMESPACE/POD:VOLUME in a repository of restic. Needed where there are several sources
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
}

/// The names of a source, of which the first tells it from all others.
type SourceNames = Vec<String>;

impl SnapshotSourceArgs {
    /// True where a source is named.
    pub(crate) fn names_source(&self) -> bool {
        self.source.is_some()
    }

    /// Chooses a snapshot of a repository of kopia, and says which one `latest` is.
    pub(crate) fn choose(&self, snapshots: &[Snapshot], text: &str) -> Result<Snapshot> {
        let candidates = self.candidates(snapshots, text, names)?;
        let chosen = lifeboat_kopia::snapshot::choose(&candidates, text)?;
        if text == LATEST {
            tell(&chosen.id, names(chosen), chosen.time());
        }
        Ok(chosen.clone())
    }

    /// Chooses a snapshot of a repository of restic, and says which one `latest` is.
    pub(crate) fn choose_restic(&self, snapshots: &[ResticSnapshot], text: &str) -> Result<ResticSnapshot> {
        let candidates = self.candidates(snapshots, text, names_of_restic)?;
        let chosen = lifeboat_restic::choose(&candidates, text)?;
        if text == LATEST {
            tell(&chosen.id, names_of_restic(chosen), chosen.time());
        }
        Ok(chosen.clone())
    }

    /// Keeps the snapshots of the named source for `latest`; an ID may be of any source. Refuses `latest` where several
    /// sources are left: a restore of it could overwrite the data of one volume with those of another.
    fn candidates<'a, S: Clone>(
        &self,
        snapshots: &'a [S],
        text: &str,
        names: impl Fn(&S) -> Option<SourceNames>,
    ) -> Result<Cow<'a, [S]>> {
        if text != LATEST {
            return Ok(Cow::Borrowed(snapshots));
        }
        let candidates = match &self.source {
            None => Cow::Borrowed(snapshots),
            Some(source) => {
                let is_of_it = |one: &&S| names(one).is_some_and(|names| names.contains(source));
                Cow::Owned(snapshots.iter().filter(is_of_it).cloned().collect::<Vec<S>>())
            }
        };
        if let Some(source) = &self.source
            && candidates.is_empty()
        {
            bail!(
                "--source {source}: no snapshot has this source; there are: {}",
                first_names(&sources(snapshots, &names))
            );
        }
        let several = sources(&candidates, &names);
        if several.len() > 1 {
            bail!(
                "latest could be of {} sources, and nothing was done: {}; name one by --source, or a snapshot by its ID",
                several.len(),
                first_names(&several)
            );
        }
        Ok(candidates)
    }
}

/// The sources of snapshots, each once and in the order of their names.
fn sources<S>(snapshots: &[S], names: &impl Fn(&S) -> Option<SourceNames>) -> Vec<String> {
    let sources: BTreeSet<String> =
        snapshots.iter().filter_map(names).filter_map(|names| names.into_iter().next()).collect();
    sources.into_iter().collect()
}

/// The names of a source of kopia; `None` where the manifest cannot be read.
fn names(snapshot: &Snapshot) -> Option<SourceNames> {
    let source = &snapshot.document.as_ref().ok()?.source;
    Some(vec![format!("{}@{}:{}", source.user, source.host, source.path), source.path.clone()])
}

/// The names of a source of restic. A volume that Velero has saved is named by its tags: its path is another one in each
/// pod. `None` where the snapshot cannot be read.
fn names_of_restic(snapshot: &ResticSnapshot) -> Option<SourceNames> {
    let document = snapshot.document.as_ref().ok()?;
    let tag = |key: &str| document.tags.iter().find_map(|tag| tag.strip_prefix(key)?.strip_prefix('='));
    let path = document.paths.join(",");
    let mut names = vec![format!("{}@{}:{path}", document.username, document.hostname), path];
    if let (Some(namespace), Some(pod), Some(volume)) = (tag("ns"), tag("pod"), tag("volume")) {
        names.insert(0, format!("{namespace}/{pod}:{volume}"));
    }
    Some(names)
}

fn tell(id: &dyn Display, names: Option<SourceNames>, time: impl Display) {
    let source = names.and_then(|names| names.into_iter().next()).unwrap_or_default();
    warn(Some(&format!("note: latest is snapshot {id} of {source}, taken at {time}")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_kopia::format::snapshot::SnapshotDocument;
    use lifeboat_kopia::format::time::UnixNanos;

    fn snapshot(id: &str, start: &str, source: (&str, &str)) -> Snapshot {
        let (host, path) = source;
        let source = format!(r#"{{"host":"{host}","userName":"u","path":"{path}"}}"#);
        let root = r#"{"name":"p","type":"d","obj":"k00"}"#;
        let text = format!(r#"{{"source":{source},"startTime":"{start}","rootEntry":{root}}}"#);
        let document = SnapshotDocument::parse(&text).map_err(|e| e.to_string());
        Snapshot { id: id.to_owned(), written: UnixNanos(0), document }
    }

    fn args(source: Option<&str>) -> SnapshotSourceArgs {
        SnapshotSourceArgs { source: source.map(str::to_owned) }
    }

    #[test]
    fn latest_is_refused_where_it_could_be_of_another_volume() {
        let all = [
            snapshot("aaaa1", "2026-01-01T00:00:00Z", ("h", "/db")),
            snapshot("bbbb1", "2026-01-02T00:00:00Z", ("h", "/db")),
            snapshot("cccc1", "2026-01-03T00:00:00Z", ("h", "/web")),
            snapshot("dddd1", "2026-01-04T00:00:00Z", ("other", "/web")),
        ];
        let chosen = |source: Option<&str>, text: &str, all: &[Snapshot]| {
            args(source).choose(all, text).map(|one| one.id).map_err(|error| error.to_string())
        };
        let ok = |id: &str| Ok(id.to_owned());
        assert_eq!(chosen(None, "latest", &all[..2]), ok("bbbb1"));
        assert_eq!(chosen(Some("/db"), "latest", &all[..]), ok("bbbb1"));
        assert_eq!(chosen(Some("u@other:/web"), "latest", &all[..]), ok("dddd1"));
        assert_eq!(chosen(None, "cccc", &all[..]), ok("cccc1"));
        // An ID says enough, so that one comparison may be of latest of one source and of an ID of another.
        assert_eq!(chosen(Some("/db"), "cccc", &all[..]), ok("cccc1"));
        let several = "latest could be of 3 sources, and nothing was done: u@h:/db, u@h:/web, u@other:/web; name one by --source, or \
                       a snapshot by its ID";
        assert_eq!(chosen(None, "latest", &all[..]), Err(several.to_owned()));
        // One path on two hosts.
        let two = "latest could be of 2 sources, and nothing was done: u@h:/web, u@other:/web; name one by --source, or a snapshot \
                   by its ID";
        assert_eq!(chosen(Some("/web"), "latest", &all[..]), Err(two.to_owned()));
        let none = "--source /none: no snapshot has this source; there are: u@h:/db, u@h:/web, u@other:/web";
        assert_eq!(chosen(Some("/none"), "latest", &all[..]), Err(none.to_owned()));
    }

    #[test]
    fn a_volume_that_velero_saved_with_restic_is_one_source_in_all_pods() {
        let snapshot = |path: &str, tags: &str| {
            let text = format!(
                r#"{{"time":"2026-01-01T00:00:00Z","tree":"{}","paths":["{path}"],"hostname":"velero","username":"root","tags":[{tags}]}}"#,
                "00".repeat(32)
            );
            let document = lifeboat_restic::format::snapshot::SnapshotDocument::parse(text.as_bytes());
            ResticSnapshot { id: lifeboat_restic::Id([1; 32]), document: document.map_err(|e| e.to_string()) }
        };
        let tags = r#""ns=shop","pod=web-0","pod-uid=1","volume=data""#;
        let names = |path: &str, tags: &str| names_of_restic(&snapshot(path, tags)).unwrap();
        assert_eq!(names("/a", tags), ["shop/web-0:data", "root@velero:/a", "/a"]);
        assert_eq!(names("/b", tags)[0], "shop/web-0:data");
        assert_eq!(names("/b", ""), ["root@velero:/b", "/b"]);
    }
}
