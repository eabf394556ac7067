//! The output of kubectl, in a form in which two clusters can be compared.

/// The form in which an answer is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Tables with an empty line between them: cell by cell, ages as the word age, flow schemas by their names.
    Tables,
    /// Objects that are described: without their events, and with the limits of a range in order.
    Described,
    /// Schemas: what a field holds that only servers write may have no name.
    Explained,
    /// As it is.
    Text,
}

/// The table that `kubectl get` prints of one type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// The lines of an answer, without what differs with the moment.
pub(super) fn lines(form: Form, text: &str) -> Vec<String> {
    match form {
        Form::Tables => {
            let line = |cells: &Vec<String>| cells.join(" | ");
            let of_table = |table: &Table| [vec![line(&table.columns)], steady(table).iter().map(line).collect()];
            tables(text).iter().flat_map(of_table).flatten().collect()
        }
        Form::Described => with_limits_in_order(without_events(text)),
        Form::Explained => lines(Form::Text, &text.replace("<FieldsV1>", "<Object>")),
        Form::Text => text.lines().map(str::to_owned).collect(),
    }
}

/// Reads tables. Cells begin where the names of their columns do, which are at least two blanks apart.
pub(super) fn tables(text: &str) -> Vec<Table> {
    text.split("\n\n").filter(|table| !table.trim().is_empty()).map(table).collect()
}

fn table(text: &str) -> Table {
    let mut lines = text.lines().skip_while(|line| line.is_empty());
    let heading: Vec<char> = lines.next().unwrap_or_default().chars().collect();
    let is_blank = |at: Option<usize>| at.and_then(|at| heading.get(at)).is_none_or(|c| *c == ' ');
    let begins = |at: &usize| !is_blank(Some(*at)) && is_blank(at.checked_sub(1)) && is_blank(at.checked_sub(2));
    let starts: Vec<usize> = (0..heading.len()).filter(begins).collect();
    let cells = |line: &[char]| {
        let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
        let cell = |(start, end): (&usize, usize)| line.get(*start..end.min(line.len()).max(*start));
        let text = |cell: Option<&[char]>| cell.unwrap_or_default().iter().collect::<String>().trim_end().to_owned();
        starts.iter().zip(ends).map(|range| text(cell(range))).collect::<Vec<String>>()
    };
    let rows = lines.map(|line| cells(&line.chars().collect::<Vec<char>>())).collect();
    Table { columns: cells(&heading), rows }
}

/// Columns whose cells say how long ago something was.
const AGES: [&str; 3] = ["AGE", "LAST SEEN", "LAST SCHEDULE"];

/// The rows with the word age for each age. The duration of a job that goes on, or has failed, is one. Kubernetes gives
/// an IPAddress an age and no column for it, so that kubectl prints it below the next one. Flow schemas come by their
/// names: a cluster puts those of a page into the order of their precedence.
fn steady(table: &Table) -> Vec<Vec<String>> {
    let of_row = |row: &Vec<String>| {
        let ended = table.columns.iter().zip(row).any(|(column, cell)| column == "STATUS" && cell == "Complete");
        let has_no_column = row.iter().any(|cell| cell.starts_with("ipaddress.networking.k8s.io/"));
        let is_age = |column: &str| has_no_column || AGES.contains(&column) || (column == "DURATION" && !ended);
        let hidden = |(column, cell): (&String, &String)| {
            if is_age(column) && is_duration(cell) { "age".to_owned() } else { cell.clone() }
        };
        table.columns.iter().zip(row).map(hidden).collect()
    };
    let mut rows: Vec<Vec<String>> = table.rows.iter().map(of_row).collect();
    if rows.iter().flatten().any(|cell| cell.starts_with("flowschema.flowcontrol.apiserver.k8s.io/")) {
        rows.sort();
    }
    rows
}

/// Returns true if a text is a duration as kubectl prints it, such as `3d4h`.
fn is_duration(text: &str) -> bool {
    let is_part = |part: &str| {
        let number = part.strip_suffix(['y', 'd', 'h', 'm', 's']).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    };
    !text.is_empty() && text.split_inclusive(|c: char| c.is_ascii_alphabetic()).all(is_part)
}

/// The events of an object are the last thing that is told of it.
fn without_events(text: &str) -> Vec<String> {
    let mut is_event = false;
    let mut is_kept = |line: &&str| {
        is_event = (is_event || line.starts_with("Events:")) && !line.is_empty();
        !is_event
    };
    text.lines().filter(|line| is_kept(line)).map(str::to_owned).collect()
}

/// kubectl tells the limits of a range in any order.
fn with_limits_in_order(mut lines: Vec<String>) -> Vec<String> {
    let of = ["Container  ", "Pod  ", "PersistentVolumeClaim  "];
    let is_limit = |line: &String| of.iter().any(|of| line.trim_start().starts_with(of));
    lines.chunk_by_mut(|one, next| is_limit(one) && is_limit(next)).for_each(<[String]>::sort);
    lines
}

/// The first lines in which two answers differ.
pub(super) fn differences(question: &str, one: &[String], other: &[String]) -> Vec<String> {
    let short = |line: Option<&String>| line.map(|line| line.chars().take(300).collect::<String>());
    let differs = |at: &usize| one.get(*at) != other.get(*at);
    let told =
        |at: usize| format!("{question}, line {}: {:?} and {:?}", at + 1, short(one.get(at)), short(other.get(at)));
    (0..one.len().max(other.len())).filter(differs).map(told).take(5).collect()
}

#[test]
fn what_kubectl_prints_is_read_cell_by_cell_and_without_the_moment() {
    let tables = "\
NAMESPACE   NAME       COMPLETIONS   STATUS     DURATION   LAST SEEN
shop        job/ä ö    0/1           Running    3m4s       2d
shop        job/done   1/1           Complete   5s         <unknown>

NAME           AGE
node/empty     \n";
    assert_eq!(
        lines(Form::Tables, tables),
        [
            "NAMESPACE | NAME | COMPLETIONS | STATUS | DURATION | LAST SEEN",
            "shop | job/ä ö | 0/1 | Running | age | age",
            "shop | job/done | 1/1 | Complete | 5s | <unknown>",
            "NAME | AGE",
            "node/empty | ",
        ]
    );
    let described = "Name:  a\nEvents:\n  Type  Reason\n  ----  ------\n\n\nName:  b\nPod  m\nPod  c\nz\na\n Pod  m\n Pod  c\nEvents:  <none>\n";
    assert_eq!(
        lines(Form::Described, described),
        ["Name:  a", "", "", "Name:  b", "Pod  c", "Pod  m", "z", "a", " Pod  c", " Pod  m"]
    );
    let texts = ["a".to_owned(), "b".to_owned()];
    assert_eq!(differences("q", &texts, &texts[..1]), [r#"q, line 2: Some("b") and None"#]);
    assert_eq!(["", "s", "5", "5s", "3d4h", "5x"].map(is_duration), [false, false, false, true, true, false]);
}
