//! The parts that the commands on `velero.io` resources share: arguments, lists, creation, deletion, waits
//! (velero: pkg/cmd, pkg/cmd/cli).

pub(crate) mod cancel;
pub(crate) mod change;
pub(crate) mod describe;
pub(crate) mod expiry;
pub(crate) mod keep;
mod kinds;
pub(crate) mod logs;
pub(crate) mod moving;
pub(crate) mod preview;
pub(crate) mod release;

use anyhow::{Result, bail};
use clap::builder::EnumValueParser;
use clap::{Args, ValueEnum};
use lifeboat_api::LabelSelector;
use lifeboat_client::{Client, FollowedObject, Object};
use lifeboat_terminal::flags::confirm::{ConfirmationTarget, asked, nobody_to_ask, question, refuse_without_terminal};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::{self, List, Optional};
use lifeboat_terminal::output::errors::missing;
use lifeboat_terminal::output::table::{Labels, print};
use lifeboat_terminal::output::{Output, print_resource};
use lifeboat_view::table::TableKind;
use moving::{TransfersOf, WaitScreen};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Yaml,
}

impl Format {
    pub(crate) fn machine(self) -> Option<Output> {
        match self {
            Self::Table => None,
            Self::Json => Some(Output::Json),
            Self::Yaml => Some(Output::Yaml),
        }
    }
}

/// Output format of objects.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Labels to show as columns of their own
    #[arg(short = 'L', long, value_parser = flags::list, value_name = "LABELS")]
    pub(crate) label_columns: Vec<List>,
    /// Show all labels in the last column
    #[arg(long)]
    pub(crate) show_labels: bool,
    /// Form of the output
    #[arg(long, short, value_parser = flags::optional(EnumValueParser::<Format>::new()), default_value = "", value_name = "FORM")]
    pub(crate) output: Optional<Format>,
}

/// Objects to get.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Names; all when left out
    pub(crate) names: Vec<String>,
    /// Without names, only those with these labels
    #[arg(long, short = 'l', default_value = "", value_name = "SELECTOR")]
    pub(crate) selector: String,
    #[command(flatten)]
    pub(crate) show: OutputArgs,
}

/// Which objects are meant: some must be.
#[derive(Debug, Args)]
pub(crate) struct ObjectSelectionArgs {
    /// Names
    pub(crate) names: Vec<String>,
    /// All of them
    #[arg(long)]
    pub(crate) all: bool,
    /// All with these labels
    #[arg(long, short = 'l', default_value = "", value_name = "SELECTOR")]
    pub(crate) selector: String,
}

impl ObjectSelectionArgs {
    /// In one way, not in several.
    pub(crate) fn is_one_way(&self) -> Result<()> {
        let ways = usize::from(!self.names.is_empty()) + usize::from(self.all) + usize::from(!self.selector.is_empty());
        if ways != 1 {
            bail!("you must specify exactly one of: specific names, the --all flag, or the --selector flag");
        }
        Ok(())
    }
}

/// Objects to delete.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) which: ObjectSelectionArgs,
    /// Do not ask. Needed with --all and --selector where there is no terminal
    #[arg(long)]
    pub(crate) confirm: bool,
    /// Set when the deletion of a backup waits for restores that read it: a flag of that command alone.
    #[arg(skip)]
    pub(crate) waits_for_restores: bool,
}

/// A kind whose objects are listed and made by commands.
pub(crate) trait ListedKind: TableKind + Object {
    /// Returns a substitute for a cluster whose definition lacks these fields, where there is one.
    fn for_definition_without(&self, _fields: &[String]) -> Result<Option<Self>> {
        Ok(None)
    }
}

/// A kind whose objects are operations of the server.
pub(crate) trait Operation: ListedKind {
    /// `backup`.
    const WORD: &'static str;
    /// `Backup`.
    const TITLE: &'static str;
    /// The data that is deleted together with the object.
    const DATA: &'static str;

    /// The transfers of its volumes.
    const TRANSFERS: TransfersOf;

    /// The word of its phase.
    fn phase_word(&self) -> &'static str;

    /// The word of its last phase, when it has ended.
    fn ended(&self) -> Option<&'static str> {
        let phase = self.phase_word();
        matches!(phase, "FailedValidation" | "Completed" | "PartiallyFailed" | "Failed").then_some(phase)
    }

    /// Objects that are done, and those found so far.
    fn progress(&self) -> Option<(i64, i64)>;

    /// Returns true if the server has stored its log by now.
    fn has_log(&self) -> bool {
        matches!(
            self.phase_word(),
            "Completed"
                | "PartiallyFailed"
                | "Failed"
                | "WaitingForPluginOperations"
                | "WaitingForPluginOperationsPartiallyFailed"
        )
    }

    /// The backup that it is, or is made of.
    fn backup_name(&self) -> &str;

    async fn request_deletion(&self, client: &Client, waits_for_restores: bool) -> Result<()>;
}

pub(crate) async fn get<T: ListedKind>(args: &GetArgs, globals: &Globals) -> Result<ExitCode> {
    show(&find::<T>(args, &globals.client().await?).await?, &args.show)
}

/// The objects that are named, each of which must exist, or else those with the labels.
pub(crate) async fn find<T: ListedKind>(args: &GetArgs, client: &Client) -> Result<Vec<T>> {
    let mut found: Vec<T> = Vec::new();
    if args.names.is_empty() {
        found = client.list(&args.selector).await?;
        T::sort(&mut found);
    }
    for name in &args.names {
        match client.get(name).await? {
            Some(object) => found.push(object),
            None => return Err(missing::<T>(name)),
        }
    }
    Ok(found)
}

pub(crate) fn show<T: ListedKind>(found: &[T], show: &OutputArgs) -> Result<ExitCode> {
    match show.output.and_then(Format::machine) {
        Some(output) => {
            let shown = match found {
                [one] => serde_json::to_value(one)?,
                all => {
                    let kind = format!("{}List", T::KIND);
                    serde_json::json!({"apiVersion": T::api_version(), "kind": kind, "metadata": {}, "items": all})
                }
            };
            print_resource(&shown, output)?;
            // compat: an empty line at the end, as in Velero.
            writeln!(std::io::stdout())?;
        }
        None => {
            let labels = Labels { columns: &flags::joined(&show.label_columns), all: show.show_labels };
            let now = jiff::Timestamp::now();
            let rows = found.iter().map(|one| (one.cells(now), &one.meta().labels));
            print(&mut std::io::stdout(), T::COLUMNS, rows, &labels)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A selector or several, not both.
pub(crate) fn one_way_to_select(selector: Option<&LabelSelector>, or_selectors: &[LabelSelector]) -> Result<()> {
    if selector.is_some() && !or_selectors.is_empty() {
        bail!("either a 'selector' or an 'or-selector' can be specified, but not both");
    }
    Ok(())
}

/// Sends an object, or prints it instead when a form was asked for; true when it was sent.
pub(crate) async fn create<T: ListedKind>(client: &Client, object: &T, show_args: &OutputArgs) -> Result<bool> {
    if show_args.output.is_some() {
        show(std::slice::from_ref(object), show_args)?;
        return Ok(false);
    }
    let name = &object.meta().name;
    match client.create_strictly(name, object).await {
        Ok(Some(_)) => Ok(true),
        Ok(None) => bail!("{}.velero.io \"{name}\" already exists", T::PLURAL),
        Err(e) => match &e.unknown_fields()[..] {
            [] => Err(e.into()),
            fields if let Some(other) = object.for_definition_without(fields)? => {
                Box::pin(create(client, &other, show_args)).await
            }
            fields => bail!(
                "{}.velero.io \"{name}\" was not created: the cluster's definition of {} has no {}; run `install --crds-only --apply`",
                T::PLURAL,
                T::PLURAL,
                fields.join(", ")
            ),
        },
    }
}

/// Prints that an operation was submitted, and waits for its end if requested.
pub(crate) async fn submitted<T: Operation>(
    client: &Client,
    name: &str,
    waits: bool,
    program: &str,
) -> Result<ExitCode> {
    let (word, title) = (T::WORD, T::TITLE);
    let mut out = std::io::stdout();
    writeln!(out, "{title} request \"{name}\" submitted successfully.")?;
    if !waits {
        writeln!(out, "Run `{program} {word} describe {name}` or `{program} {word} logs {name}` for more details.")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "Waiting for {word} to complete. You may safely press ctrl-c to stop waiting - your {word} will continue in the background."
    )?;
    let phase = wait::<T>(client, name).await?;
    writeln!(
        out,
        "{title} completed with status: {phase}. You may check for more information using the commands \
         `{program} {word} describe {name}` and `{program} {word} logs {name}`."
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for the deletion of what the arguments choose.
pub(crate) async fn delete<T: Operation>(args: &DeleteArgs, globals: &Globals) -> Result<ExitCode> {
    let client = globals.client().await?;
    let Some((found, mut errors)) = chosen::<T>(args, &client, |_| Vec::new()).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    let (word, data) = (T::WORD, T::DATA);
    let mut out = std::io::stdout();
    if found.is_empty() {
        // compat: when none is found, what is missing is no error.
        writeln!(out, "No {word}s found")?;
        return Ok(ExitCode::SUCCESS);
    }
    for one in &found {
        match one.request_deletion(&client, args.waits_for_restores).await {
            Ok(()) => {
                writeln!(out, "Request to delete {word} \"{}\" submitted successfully.", one.meta().name)?;
                writeln!(out, "The {word} will be fully deleted after all associated data ({data}) are removed.")?;
            }
            Err(e) => errors.push(e),
        }
    }
    together(errors)
}

/// Returns the objects that the arguments select, and errors for those that are missing. Prints the effect of their
/// deletion, names them and asks, unless confirmed by a flag; `None` when the answer is no. Where nobody can be asked,
/// only named objects may be deleted without `--confirm`.
pub(crate) async fn chosen<T: ListedKind>(
    args: &DeleteArgs,
    client: &Client,
    consequences: impl FnOnce(&[T]) -> Vec<String>,
) -> Result<Option<(Vec<T>, Vec<anyhow::Error>)>> {
    args.which.is_one_way()?;
    let flag = if args.which.all { "--all" } else { "--selector" };
    let is_named = !args.which.names.is_empty();
    refuse_without_terminal(args.confirm || is_named, || {
        nobody_to_ask("deleted", flag, ConfirmationTarget::of(client))
    })?;
    let (found, errors) = of_which::<T>(&args.which, client).await?;
    if found.is_empty() {
        return Ok(Some((found, errors)));
    }
    for consequence in consequences(&found) {
        writeln!(std::io::stderr(), "{consequence}")?;
    }
    let names: Vec<&str> = found.iter().map(|one| one.meta().name.as_str()).collect();
    let is_wanted = asked(&question("Delete", T::KIND, &names, ConfirmationTarget::of(client)), args.confirm)?;
    Ok(is_wanted.then_some((found, errors)))
}

/// Returns the selected objects, and errors for those that are missing.
pub(crate) async fn of_which<T: ListedKind>(
    which: &ObjectSelectionArgs,
    client: &Client,
) -> Result<(Vec<T>, Vec<anyhow::Error>)> {
    if which.names.is_empty() {
        return Ok((client.list(&which.selector).await?, Vec::new()));
    }
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for name in &which.names {
        match client.get(name).await? {
            Some(object) => found.push(object),
            None => errors.push(missing::<T>(name)),
        }
    }
    Ok((found, errors))
}

/// Combines several errors into one; `Ok` when there are none.
pub(crate) fn together(mut errors: Vec<anyhow::Error>) -> Result<ExitCode> {
    match errors.len() {
        0 => Ok(ExitCode::SUCCESS),
        1 => Err(errors.remove(0)),
        _ => bail!("[{}]", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Waits for a last phase, and returns its word; prints a dot each second and each minute the volumes that are moved, or on a
/// terminal the progress of all. The wait has no deadline of its own: the server may be away for long, and the user sees that it
/// lasts. An object that is deleted meanwhile has no last phase.
pub(crate) async fn wait<T: Operation>(client: &Client, name: &str) -> Result<&'static str> {
    let mut screen = WaitScreen::new();
    let mut seconds = interval_at(Instant::now() + A_DOT, A_DOT);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut follow = client.follow::<T>(name);
    let (sender, mut volumes) = watch::channel(Vec::new());
    let mut looks = Box::pin(T::TRANSFERS.follow(client, name, sender));
    let mut last = "New";
    loop {
        let seen = {
            let mut next = Box::pin(follow.next());
            loop {
                tokio::select! {
                    biased;
                    seen = &mut next => break seen,
                    never = &mut looks => match never {},
                    Ok(()) = volumes.changed() => screen.show_volumes(volumes.borrow_and_update().clone())?,
                    _ = seconds.tick() => screen.tick()?,
                }
            }
        };
        let found = match seen {
            Ok(FollowedObject::Is(found)) => found,
            Ok(FollowedObject::Gone) => {
                screen.finish()?;
                bail!("{} \"{name}\" was deleted before it had ended; its last phase was {last}", T::WORD);
            }
            Err(e) => {
                screen.finish()?;
                return Err(e.into());
            }
        };
        last = found.phase_word();
        if let Some(phase) = found.ended() {
            screen.finish()?;
            return Ok(phase);
        }
        let (done, total) = found.progress().unwrap_or_default();
        screen.show_objects(format!("{last}: {done} of {total} objects"))?;
    }
}

/// Between two dots of a wait.
pub(crate) const A_DOT: Duration = Duration::from_secs(1);
