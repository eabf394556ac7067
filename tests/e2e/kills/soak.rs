//! Servers that make, keep and delete the backups of many schedules, of which one after the other is killed. Long:
//! `make test-long`.

use crate::ground::{BUCKET, Ground, Server};
use crate::random::{first_seed, number, splitmix};
use crate::support::{comes_to_be_within, eventually};
use jiff::{SignedDuration, Timestamp};
use lifeboat_archive::ReadLimits;
use lifeboat_bucket::Directory;
use lifeboat_store::{OpenOptions, Store};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many backups are made; `LIFEBOAT_BACKUPS` says another number.
const BACKUPS: u64 = 500;
/// Schedules that are due each minute, and as many that are due each [`PERIOD`]: fifty runs a minute.
const EACH: usize = 10;
const PERIOD: SignedDuration = SignedDuration::from_secs(15);
/// Time for which the backups of every other schedule are kept.
const TTL: &str = "60s";
const REPLICAS: usize = 3;
const FLAGS: [&str; 10] = [
    "--lease-duration",
    "4s",
    "--concurrent-backups",
    "4",
    "--garbage-collection-frequency",
    "2s",
    "--backup-sync-period",
    "10s",
    "--store-validation-frequency",
    "10s",
];
/// Between two kills, in seconds, and until what was killed is started again.
const KILLS: std::ops::Range<u64> = 4..20;
const AWAY: std::ops::Range<u64> = 0..6;
/// Time limit for all runs, which are due within ten minutes, and for the work that is unfinished at their end.
const LIMIT: Duration = Duration::from_secs(25 * 60);
const END: Duration = Duration::from_secs(180);
/// A run may come so much later than it is due: a leader is killed, its Lease runs out, the next one begins the backup
/// before again.
const LATE: SignedDuration = SignedDuration::from_secs(50);
/// A leader has made so many backups before its memory is judged; from then on it may grow by so much.
const WARM: usize = 50;
const GROWTH: u64 = 32 << 10;

/// A schedule: of the same namespace as all others.
struct Plan {
    name: String,
    is_minutely: bool,
    /// Its backups go when their time is over, within the test.
    goes: bool,
    location: &'static str,
}

impl Plan {
    fn all() -> Vec<Self> {
        let plan = |number: usize, is_minutely: bool| Self {
            name: format!("{}-{number}", if is_minutely { "minutely" } else { "often" }),
            is_minutely,
            goes: number.is_multiple_of(2),
            location: if number % 4 < 2 { "disk" } else { "cloud" },
        };
        [true, false].into_iter().flat_map(|is_minutely| (0..EACH).map(move |n| plan(n, is_minutely))).collect()
    }

    fn spec(&self) -> Value {
        let cron = if self.is_minutely { "* * * * *".to_owned() } else { format!("@every {}s", PERIOD.as_secs()) };
        let ttl = if self.goes { TTL } else { "24h" };
        json!({"schedule": cron, "template": {"includedNamespaces": ["shop"], "includedResources": ["configmaps"],
            "storageLocation": self.location, "ttl": ttl}})
    }

    /// The time at which a run was due, by the name of its backup; `None` for a backup of another schedule.
    fn due(&self, backup: &str) -> Option<Timestamp> {
        let stamp = backup.strip_prefix(&self.name)?.strip_prefix('-')?;
        let time = jiff::civil::DateTime::strptime("%Y%m%d%H%M%S", stamp).ok()?;
        jiff::tz::TimeZone::UTC.to_timestamp(time).ok()
    }
}

/// The creations of Backups in the API server's audit log: each run that was ever made.
struct Audit {
    log: BufReader<File>,
    /// A line that is not written to its end yet.
    begun: String,
    /// The number of Backups that were made by each name.
    made: BTreeMap<String, usize>,
}

impl Audit {
    fn begin(log: &Path) -> Self {
        let log = BufReader::new(File::open(log).expect("the audit log"));
        Self { log, begun: String::new(), made: BTreeMap::new() }
    }

    fn read(&mut self) {
        while self.log.read_line(&mut self.begun).expect("the audit log") > 0 {
            if !self.begun.ends_with('\n') {
                return;
            }
            let line = std::mem::take(&mut self.begun);
            if !line.contains(r#""verb":"create""#) || !line.contains(r#""resource":"backups""#) {
                continue;
            }
            let event: Value = serde_json::from_str(&line).expect("an event");
            let name = event["objectRef"]["name"].as_str().expect("the name of a Backup").to_owned();
            match event["responseStatus"]["code"].as_u64() {
                Some(201) => *self.made.entry(name).or_default() += 1,
                // It is there: whoever made it died before it had the answer.
                Some(409) => drop(self.made.entry(name).or_insert(1)),
                _ => {}
            }
        }
    }
}

/// The memory of a leader.
struct Leading {
    identity: String,
    /// Number of backups when it began to lead.
    since: usize,
    /// KiB, when it was warm.
    first: Option<(u64, usize)>,
    /// KiB.
    last: (u64, usize),
}

impl Leading {
    #[allow(clippy::print_stdout, reason = "the figures are what the test is for")]
    fn judge(&self) {
        let Some((first, after)) = self.first else { return };
        let (last, at_end) = self.last;
        println!(
            "-- soak: RSS of {} as the leader: {} MiB after {after} backups, {} MiB after {at_end}",
            self.identity,
            first >> 10,
            last >> 10
        );
        assert!(last <= first + GROWTH, "the memory of {} grows", self.identity);
    }
}

/// The servers, and who kills them.
struct Fleet<'a> {
    ground: &'a Ground,
    seed: u64,
    thrown: u64,
    running: Vec<(String, Server)>,
    started: usize,
    kills: usize,
    /// Of them, those of leaders.
    leaders: usize,
    /// Number of servers that have ended by themselves.
    ended: usize,
    next_kill: Instant,
    next_start: Instant,
    next_look: Instant,
    leading: Option<Leading>,
    /// KiB, the most that one held which stood by.
    standing_by: u64,
}

impl<'a> Fleet<'a> {
    fn start(ground: &'a Ground, seed: u64) -> Self {
        let now = Instant::now();
        let mut fleet = Self {
            ground,
            seed,
            thrown: 0,
            running: Vec::new(),
            started: 0,
            kills: 0,
            leaders: 0,
            ended: 0,
            next_kill: now + Duration::from_secs(20),
            next_start: now,
            next_look: now,
            leading: None,
            standing_by: 0,
        };
        fleet.complete();
        fleet
    }

    /// A number of a range, by the seed.
    fn throw(&mut self, range: std::ops::Range<u64>) -> u64 {
        self.thrown += 1;
        range.start + splitmix(self.seed.wrapping_add(self.thrown)) % (range.end - range.start)
    }

    /// Starts those that are missing.
    fn complete(&mut self) {
        while self.running.len() < REPLICAS {
            self.started += 1;
            let identity = format!("server-{}", self.started);
            let server = self.ground.server_with(&identity, &self.ground.bed.plane.kubeconfig(), &FLAGS);
            self.running.push((identity, server));
        }
    }

    /// The place of the one that leads.
    fn leader(&self) -> Option<usize> {
        let lease = self.ground.get("lease", "lifeboat-server");
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let leads = |identity: &str| holder.strip_prefix(identity).is_some_and(|rest| rest.starts_with('_'));
        self.running.iter().position(|(identity, _)| leads(identity))
    }

    /// Kills and starts what is due. `spares_leader`: only one that stands by is killed.
    fn go_on(&mut self, made: usize, spares_leader: bool) {
        let now = Instant::now();
        if now >= self.next_kill && self.running.len() > 1 {
            let leader = self.leader();
            let place = usize::try_from(self.throw(0..self.running.len() as u64)).expect("a place");
            let leads = leader == Some(place);
            let is_spared = (spares_leader && (leads || leader.is_none())) || (leads && is_begun_again(self.ground));
            if !is_spared {
                let (_, victim) = self.running.remove(place);
                victim.kill();
                self.kills += 1;
                self.leaders += usize::from(leads);
            }
            self.next_start = now + Duration::from_secs(self.throw(AWAY));
            self.next_kill = now + Duration::from_secs(self.throw(KILLS));
        }
        let before = self.running.len();
        self.running.retain_mut(|(_, server)| server.0.try_wait().expect("its state").is_none());
        self.ended += before - self.running.len();
        if now >= self.next_start {
            self.complete();
        }
        if now >= self.next_look {
            self.next_look = now + Duration::from_secs(2);
            self.look(made);
        }
    }

    /// Looks at the memory of all.
    fn look(&mut self, made: usize) {
        let leader = self.leader();
        for (place, (identity, server)) in self.running.iter().enumerate() {
            let Some(held) = resident(server) else { continue };
            if leader != Some(place) {
                self.standing_by = self.standing_by.max(held);
                continue;
            }
            if self.leading.as_ref().is_none_or(|leading| leading.identity != *identity) {
                if let Some(before) = self.leading.take() {
                    before.judge();
                }
                self.leading =
                    Some(Leading { identity: identity.clone(), since: made, first: None, last: (held, made) });
            }
            if let Some(leading) = &mut self.leading {
                leading.last = (held, made);
                if leading.first.is_none() && made >= leading.since + WARM {
                    leading.first = Some((held, made));
                }
            }
        }
    }
}

/// KiB of memory that a process holds; `None` when it has ended.
fn resident(server: &Server) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.0.id())).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

/// The Backups in the cluster: their phases, and how many attempts each took.
fn backups(ground: &Ground) -> BTreeMap<String, (String, u64)> {
    let template = "{range .items[*]}{.metadata.name} {.status.phase} {.status.attempt}{\"\\n\"}{end}";
    let out = ground.bed.kubectl(&["get", "backups", "--namespace=velero", &format!("--output=jsonpath={template}")]);
    let of = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let (name, phase) = (words.next()?, words.next()?);
        Some((name, (phase, words.next()?.parse().unwrap_or_default())))
    };
    out.lines().filter_map(of).collect()
}

/// Returns true if a backup that was cut off is under way again, or has failed, as it should after three times.
fn is_begun_again(ground: &Ground) -> bool {
    backups(ground).values().any(|(phase, attempt)| *attempt > 1 && phase != "Completed")
}

/// Each run of a minute has its backup, and the others come one after the other, no two within their period.
fn none_is_missing(plan: &Plan, due: &[Timestamp], made: Timestamp, until: Timestamp) {
    let name = &plan.name;
    if plan.is_minutely {
        let first = made.as_second() / 60 + 1;
        let minutes = (first..).map(|minute| Timestamp::from_second(minute * 60).expect("a time"));
        let certain = minutes.take_while(|minute| until.duration_since(*minute) > LATE);
        let missing: Vec<_> = certain.filter(|minute| !due.contains(minute)).collect();
        assert!(missing.is_empty(), "{name} has no runs of {missing:?}");
        assert!(due.iter().all(|due| due.as_second() % 60 == 0 && *due > made), "{name}: {due:?}");
        return;
    }
    let times = [&[made], due, &[until]].concat();
    for pair in times.windows(2) {
        let pause = pair[1].duration_since(pair[0]);
        assert!(pause <= PERIOD + LATE, "{name} has no run between {} and {}", pair[0], pair[1]);
        // The schedule was made in the middle of a second, and rests at any time.
        let is_between_runs = pair[0] != made && pair[1] != until;
        assert!(!is_between_runs || pause >= PERIOD, "{name} has two runs, of {} and {}", pair[0], pair[1]);
    }
}

/// The folder of the backups of a location.
fn folder(ground: &Ground, disk: &Path, location: &str) -> PathBuf {
    if location == "disk" { disk.to_owned() } else { ground.s3.file(BUCKET, location) }
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let found = std::fs::read_dir(folder.join("backups")).map(|all| all.flatten().collect::<Vec<_>>());
    found.unwrap_or_default().iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Every backup of a bucket is whole, and has no other files.
fn are_whole(ground: &Ground, bucket: &Path, names: &BTreeSet<String>) {
    let store = Store::new(Arc::new(Directory::open(bucket).expect("the folder")));
    let scratch = ground.directories.path().to_owned();
    let options = OpenOptions { limits: ReadLimits::default(), scratch, ignore_index: false };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for name in names {
        let found = runtime.block_on(store.verify(name, &options)).expect("a backup");
        assert!(found.has_manifest && found.files == 9 && found.problems.is_empty(), "{name}: {found:?}");
        let files = std::fs::read_dir(bucket.join("backups").join(name)).expect("a folder").flatten();
        let files: BTreeSet<String> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        // A server that takes a backup up claims it anew. With the manifest and the record.
        let others: Vec<&String> = files.iter().filter(|file| !file.starts_with("lifeboat-claim")).collect();
        assert!(others.len() == 11 && others.len() < files.len(), "{name}: {files:?}");
    }
}

#[test]
#[ignore = "takes about a quarter of an hour: make test-long"]
#[allow(clippy::print_stdout, reason = "the figures are what the test is for")]
fn long_each_run_of_a_schedule_is_made_once_while_servers_die() {
    let (seed, count) = (first_seed(), number("LIFEBOAT_BACKUPS").unwrap_or(BACKUPS));
    let count = usize::try_from(count).expect("a number");
    println!("-- soak: {count} backups, LIFEBOAT_SEED={seed}");
    let ground = Ground::fresh();
    ground.many("shop", 3);
    ground.s3_location("cloud", ground.s3.endpoint());
    let disk = ground.directory("disk", &json!({"default": true}));
    let mut audit = Audit::begin(&ground.bed.plane.audit_log());
    let mut fleet = Fleet::start(&ground, seed);
    for location in ["disk", "cloud"] {
        ground.until("backupstoragelocation", location, "Available");
        ground.let_an_hour_pass("velero", location);
    }
    let plans = Plan::all();
    for plan in &plans {
        ground.velero("Schedule", &plan.name, &plan.spec());
    }
    let made_at: BTreeMap<&str, Timestamp> = plans
        .iter()
        .map(|plan| {
            let schedule = ground.get("schedule", &plan.name);
            let made = schedule["metadata"]["creationTimestamp"].as_str().expect("a time");
            (plan.name.as_str(), made.parse().expect("a time"))
        })
        .collect();

    let (begun, mut repeated, mut next_list) = (Instant::now(), BTreeSet::new(), Instant::now());
    let mut look_at_phases = || {
        for (name, (phase, attempt)) in backups(&ground) {
            assert!(!phase.contains("Failed"), "backup {name} is {phase} after {attempt} attempts");
            if attempt > 1 {
                repeated.insert(name);
            }
        }
    };
    let all_made = comes_to_be_within(LIMIT, || {
        audit.read();
        let made = audit.made.len();
        // In the last two fifths a leader works long enough to show whether its memory grows.
        fleet.go_on(made, made * 5 >= count * 3);
        if Instant::now() >= next_list {
            next_list = Instant::now() + Duration::from_secs(5);
            look_at_phases();
        }
        made >= count
    });
    assert!(all_made, "of {count} backups there were {} after {} s", audit.made.len(), LIMIT.as_secs());
    if let Some(leading) = fleet.leading.take() {
        leading.judge();
    }
    let until = Timestamp::now();
    for plan in &plans {
        ground.bed.kubectl(&[
            "patch",
            "schedule",
            &plan.name,
            "-n",
            "velero",
            "--type=merge",
            "-p",
            r#"{"spec":{"paused":true}}"#,
        ]);
    }
    let seconds = begun.elapsed().as_secs();
    fleet.complete();

    let goes = |name: &str| plans.iter().any(|plan| plan.goes && plan.due(name).is_some());
    let mut left = BTreeMap::new();
    let ended = comes_to_be_within(END, || {
        look_at_phases();
        left = backups(&ground);
        left.iter().all(|(name, (phase, _))| phase == "Completed" && !goes(name))
    });
    assert!(ended, "not all backups come to their end: {left:?}");
    audit.read();
    let twice: Vec<_> = audit.made.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "made twice: {twice:?}");
    for plan in &plans {
        // In the order of their names, which is that of their times.
        let due: Vec<Timestamp> = audit.made.keys().filter_map(|name| plan.due(name)).collect();
        none_is_missing(plan, &due, made_at[plan.name.as_str()], until);
    }
    let kept: BTreeSet<String> = audit.made.keys().filter(|name| !goes(name)).cloned().collect();
    assert_eq!(left.into_keys().collect::<BTreeSet<_>>(), kept, "what is kept is what was made");
    eventually("the end of all requests for deletion", || {
        ground.bed.objects("deletebackuprequests", "velero").is_empty()
    });
    for location in ["disk", "cloud"] {
        let bucket = folder(&ground, &disk, location);
        let is_there = |name: &str| plans.iter().any(|plan| plan.location == location && plan.due(name).is_some());
        let expected: BTreeSet<String> = kept.iter().filter(|name| is_there(name)).cloned().collect();
        eventually("what the bucket holds is what the cluster knows", || names_in(&bucket) == expected);
        are_whole(&ground, &bucket, &expected);
    }
    for server in 1..=fleet.started {
        let log = ground.log(&format!("server-{server}"));
        assert!(!log.contains("panicked"), "a task of server-{server} died: {log}");
    }
    println!(
        "-- soak: {} backups of {} schedules in {seconds} s, {} of them kept; {} servers killed, {} of them leading; {} ended by \
         themselves; {} backups begun again; RSS of those that stand by: {} MiB at most",
        audit.made.len(),
        plans.len(),
        kept.len(),
        fleet.kills,
        fleet.leaders,
        fleet.ended,
        repeated.len(),
        fleet.standing_by >> 10
    );
}
