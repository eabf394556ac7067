//! The transfers of volumes of backups and restores that a command waits for or shows.

use jiff::Timestamp;
use lifeboat_api::well_known::{LABEL_BACKUP_NAME, LABEL_RESTORE_NAME};
use lifeboat_api::{DataDownload, DataUpload, PodVolumeBackup, PodVolumeRestore, label_value};
use lifeboat_client::{Client, Object};
use lifeboat_cluster::ClusterError;
use lifeboat_requests::transfers::list_transfers;
use lifeboat_view::transfer::rates::TransferRates;
use lifeboat_view::transfer::{VolumeTransfer, lines_of, sort_transfers};
use std::convert::Infallible;
use std::io::{IsTerminal, Stdout, Write};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// The time between two looks. Node agents write progress as often at the most.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);
/// The number by which a pause is longer than the list before it, so that a large namespace is not listed all the time.
const PAUSES: u32 = 10;
/// The volumes that have a line.
const MOST_LINES: usize = 10;
/// The backups or restores whose transfers are listed by one request.
const MOST_NAMES: usize = 50;

/// The operations whose volumes are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TransfersOf {
    Backups,
    Restores,
}

impl TransfersOf {
    /// The transfers of the operations with these names, in the order in which they are shown. Who may not list them sees none.
    pub(crate) async fn list(self, client: &Client, names: &[&str]) -> Result<Vec<VolumeTransfer>, ClusterError> {
        let mut found = Vec::new();
        for names in names.chunks(MOST_NAMES) {
            let names: Vec<String> = names.iter().map(|name| label_value(name)).collect();
            let of = |label: &str| format!("{label} in ({})", names.join(","));
            match self {
                Self::Backups => {
                    let labels = of(LABEL_BACKUP_NAME);
                    found.extend(listed::<PodVolumeBackup>(client, &labels).await?);
                    found.extend(listed::<DataUpload>(client, &labels).await?);
                }
                Self::Restores => {
                    let labels = of(LABEL_RESTORE_NAME);
                    found.extend(listed::<PodVolumeRestore>(client, &labels).await?);
                    found.extend(listed::<DataDownload>(client, &labels).await?);
                }
            }
        }
        sort_transfers(&mut found);
        Ok(found)
    }

    /// Sends the lines about the volumes of an operation again and again, until it is dropped.
    pub(crate) async fn follow(self, client: &Client, name: &str, sender: watch::Sender<Vec<String>>) -> Infallible {
        let mut rates = TransferRates::default();
        let mut pause = BETWEEN_LOOKS;
        loop {
            sleep(pause).await;
            let begun = Instant::now();
            match self.list(client, &[name]).await {
                Ok(mut transfers) => {
                    rates.note(&mut transfers, Timestamp::now());
                    sender.send_replace(lines_of(&transfers, MOST_LINES));
                }
                Err(e) => drop(sender.send_replace(vec![format!("volumes: it is not known how far they are: {e}")])),
            }
            pause = BETWEEN_LOOKS.max(begun.elapsed() * PAUSES);
        }
    }
}

/// As [`list_transfers`]. Who may not list them sees none.
async fn listed<T: Object>(client: &Client, labels: &str) -> Result<Vec<VolumeTransfer>, ClusterError>
where
    for<'a> VolumeTransfer: From<&'a T>,
{
    match list_transfers::<T>(client, labels).await {
        Err(e) if e.is_forbidden() => Ok(Vec::new()),
        listed => listed,
    }
}

/// The time between two prints of the volumes where there is no terminal.
const BETWEEN_PRINTS: Duration = Duration::from_secs(60);

/// The output of a wait: lines that change on a terminal, dots and now and then lines elsewhere.
pub(crate) struct WaitScreen {
    out: Stdout,
    on_terminal: bool,
    objects: String,
    volumes: Vec<String>,
    /// The lines below the first one that are on the terminal.
    below: usize,
    /// The time at which volumes were last printed.
    printed: Option<Instant>,
}

impl WaitScreen {
    pub(crate) fn new() -> Self {
        let out = std::io::stdout();
        let on_terminal = out.is_terminal();
        Self { out, on_terminal, objects: String::new(), volumes: Vec::new(), below: 0, printed: None }
    }

    /// Shows how far the objects are.
    pub(crate) fn show_objects(&mut self, line: String) -> std::io::Result<()> {
        self.objects = line;
        if self.on_terminal { self.draw() } else { Ok(()) }
    }

    /// Shows how far the volumes are.
    pub(crate) fn show_volumes(&mut self, lines: Vec<String>) -> std::io::Result<()> {
        self.volumes = lines;
        if self.on_terminal {
            return self.draw();
        }
        let is_due = self.printed.is_none_or(|printed| printed.elapsed() >= BETWEEN_PRINTS);
        if self.volumes.is_empty() || !is_due {
            return Ok(());
        }
        self.printed = Some(Instant::now());
        write!(self.out, "\n{}\n", self.volumes.join("\n"))?;
        self.out.flush()
    }

    /// Shows that the wait lasts.
    pub(crate) fn tick(&mut self) -> std::io::Result<()> {
        if self.on_terminal {
            return Ok(());
        }
        write!(self.out, ".")?;
        self.out.flush()
    }

    /// Leaves what was shown last.
    pub(crate) fn finish(&mut self) -> std::io::Result<()> {
        writeln!(self.out)
    }

    fn draw(&mut self) -> std::io::Result<()> {
        let screen = drawn(&self.objects, &self.volumes, self.below);
        self.below = self.volumes.len();
        self.out.write_all(screen.as_bytes())?;
        self.out.flush()
    }
}

/// The characters that replace what is on a terminal, which has so many lines below the first one. A long line is cut at the edge, so
/// that it stays one.
fn drawn(first: &str, others: &[String], below: usize) -> String {
    let up = if below > 0 { format!("\x1b[{below}A") } else { String::new() };
    let rest: String = others.iter().map(|line| format!("\n{line}")).collect();
    format!("{up}\r\x1b[J\x1b[?7l{first}{rest}\x1b[?7h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_draws_its_lines_over_those_before() {
        let lines = ["volumes: 1".to_owned(), "  shop/data".to_owned()];
        assert_eq!(drawn("New", &[], 0), "\r\x1b[J\x1b[?7lNew\x1b[?7h");
        assert_eq!(drawn("New", &lines, 0), "\r\x1b[J\x1b[?7lNew\nvolumes: 1\n  shop/data\x1b[?7h");
        assert_eq!(drawn("Done", &[], 2), "\x1b[2A\r\x1b[J\x1b[?7lDone\x1b[?7h");
    }
}
