use super::*;

fn read_all(text: &str) -> Result<Directory, FormatError> {
    let mut entries = Vec::new();
    let summary = read::<FormatError>(text.as_bytes(), |entry| {
        entries.push(entry);
        Ok(())
    })?;
    Ok(Directory { entries, summary })
}

fn with_entry(entry: &str) -> String {
    format!(r#"{{"stream":"kopia:directory","entries":[{entry}],"summary":null}}"#)
}

#[test]
fn an_empty_directory_has_no_list() {
    let text = "{\"stream\":\"kopia:directory\",\"entries\":null,\"summary\":{\"size\":0,\"files\":0,\"symlinks\":0,\"dirs\":1,\"maxTime\":\"2024-01-02T03:04:05.123456789Z\",\"numFailed\":0}}\n";
    let directory = read_all(text).expect("a directory");
    let summary = Summary { directories: 1, max_time: UnixNanos(1_704_164_645_123_456_789), ..Summary::default() };
    assert_eq!(directory, Directory { entries: Vec::new(), summary: Some(summary) });
    assert_eq!(str::from_utf8(&write(&directory)), Ok(text));
}

#[test]
fn everything_that_an_entry_can_have_is_read_and_written_again() {
    let text = r#"{"stream":"kopia:directory","entries":[{"name":"d\u2028","type":"d","mode":"020000755","mtime":"1969-12-31T23:59:59.999999999Z","uid":4294967295,"gid":7,"obj":"Ik00","summ":{"size":3,"files":2,"symlinks":1,"dirs":4,"maxTime":"1970-01-01T00:00:00Z","incomplete":"checkpoint","numFailed":1,"numIgnoredErrors":2,"errors":[{"path":"d/x","error":"no \"right\""}]}},{"name":"f","type":"f","size":9223372036854775807,"obj":"Z00"},{"name":"odd","type":"fifo","obj":""}],"summary":null}"#;
    let directory = read_all(text).expect("a directory");
    assert_eq!(String::from_utf8(write(&directory)), Ok(format!("{text}\n")));
    assert_eq!(directory.entries[0].mode, 0o2755);
    assert_eq!(directory.entries[2].entry_type, EntryType::Unknown("fifo".to_owned()));
    assert_eq!(directory.entries[2].object, None);
}

#[test]
fn keys_are_read_without_case_and_unknown_ones_passed_over() {
    let entry = r#"{"NAME":"a","Type":"f","later":{"x":[1,{"y":null}]},"\u017fize":5,"OBJ":"00","mtime":null}"#;
    let directory = read_all(&with_entry(entry)).expect("a directory");
    let read = &directory.entries[0];
    assert_eq!((read.name.as_str(), read.size, read.modified), ("a", 5, UnixNanos(0)));
    assert_eq!(read.object, ObjectId::parse("00").ok());
}

#[test]
fn an_entry_with_a_bad_object_is_an_entry_without_one() {
    let directory = read_all(&with_entry(r#"{"name":"a","type":"f","obj":"nonsense"},{"name":"b","obj":"00"}"#));
    let objects: Vec<bool> =
        directory.expect("a directory").entries.iter().map(|entry| entry.object.is_some()).collect();
    assert_eq!(objects, [false, true]);
}

#[test]
fn numbers_that_kopia_cannot_hold_damage_the_directory() {
    let entries = [
        r#"{"name":"a","size":-1}"#,
        r#"{"name":"a","size":1.0}"#,
        r#"{"name":"a","size":9223372036854775808}"#,
        r#"{"name":"a","uid":4294967296}"#,
        r#"{"name":"a","gid":-1}"#,
        r#"{"name":"a","mode":420}"#,
        r#"{"name":"a","mode":"rwx"}"#,
        r#"{"name":"a","mtime":"yesterday"}"#,
        r#"{"name":7}"#,
        r#"{"name":"a","summ":{"files":-1}}"#,
    ];
    for entry in entries {
        assert!(read_all(&with_entry(entry)).is_err(), "{entry}");
    }
}

#[test]
fn another_stream_is_no_directory() {
    for text in [
        "",
        "{}",
        r#"{"entries":[]}"#,
        r#"{"stream":"kopia:indirect","entries":[]}"#,
        r#"{"stream":"kopia:directory","entries":[]}{}"#,
        r#"{"stream":"kopia:directory","entries":[}"#,
        r#"{"stream":"kopia:directory","entries":[{}"#,
    ] {
        assert!(read_all(text).is_err(), "{text}");
    }
}

#[test]
fn reading_stops_at_an_error_of_the_caller() {
    let text = with_entry(r#"{"name":"a"},{"name":"b"}"#);
    let mut names = Vec::new();
    let result = read::<FormatError>(text.as_bytes(), |entry| {
        names.push(entry.name.into_string());
        Err(FormatError::new("test", "enough"))
    });
    assert_eq!(result, Err(FormatError::new("test", "enough")));
    assert_eq!(names, ["a"]);
}

#[test]
fn names_that_are_no_text_keep_which_characters_stand_for_lost_bytes() {
    let mut entry = read_all(&with_entry(r#"{"name":"a","obj":"00"}"#)).expect("a directory").entries.remove(0);
    for (bytes, written) in [
        (&b"a\xffb"[..], "a\\ufffdb"),
        (b"\xe2\x82", "\\ufffd\\ufffd"),
        (b"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"),
        ("\u{fffd}".as_bytes(), "\u{fffd}"),
        (b"\xef\xbf\xbd\xff", "\u{fffd}\\ufffd"),
    ] {
        entry.name = Text::from_bytes(bytes);
        let directory = Directory { entries: vec![entry.clone()], summary: None };
        let text = String::from_utf8(write(&directory)).expect("text");
        assert!(text.contains(&format!(r#"[{{"name":"{written}","#)), "{text}");
        assert_eq!(read_all(&text), Ok(directory));
    }
}

#[test]
fn a_directory_that_is_taken_in_parts_is_the_same() {
    let text = with_entry(r#"{"name":"a","obj":"00"},{"name":"b","obj":"00"}"#) + "\n";
    let directory = read_all(&text).expect("a directory");
    let mut writer = DirectoryWriter::begin();
    let mut parts = Vec::new();
    for entry in &directory.entries {
        writer.push(entry);
        parts.extend(writer.take());
    }
    parts.extend(writer.end(None));
    assert_eq!(String::from_utf8(parts), Ok(text));
}
